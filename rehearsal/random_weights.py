"""Seeded random weights under published names, and shards of them in the number formats of large models."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]


class Random:
    """Seeded weights under the requested names, large enough that a wrong detail exceeds float noise."""

    def __init__(self, seed: int) -> None:
        self.weights: Weights = {}
        self._generator = np.random.default_rng(seed)

    def matrix(self, name: str, rows: int, columns: int) -> None:
        """Returns a matrix of small numbers."""
        self.weights[name] = self._generator.normal(0, 0.15, (rows, columns)).astype(np.float32)

    def vector(self, name: str, size: int) -> None:
        """Returns a vector of small numbers."""
        self.weights[name] = self._generator.normal(0, 0.15, size).astype(np.float32)

    def linear(self, name: str, rows: int, columns: int) -> None:
        """Adds weight and bias."""
        self.matrix(f"{name}.weight", rows, columns)
        self.vector(f"{name}.bias", rows)

    def norm(self, name: str, size: int) -> None:
        """Adds a layer norm with weights around one."""
        self.vector(f"{name}.weight", size)
        self.weights[f"{name}.weight"] += 1
        self.vector(f"{name}.bias", size)

    def mxfp4(self, name: str, experts: int, rows: int, columns: int) -> None:
        """Adds blocks of 32 four-bit numbers with a scale each, as `_blocks` and `_scales`, and a bias."""
        groups = columns // 32
        blocks = self._generator.integers(0, 256, (experts, rows, groups, 16), dtype=np.uint8)
        self.weights[f"{name}_blocks"] = blocks
        self.weights[f"{name}_scales"] = self._generator.integers(120, 124, (experts, rows, groups), dtype=np.uint8)
        self.matrix(f"{name}_bias", experts, rows)


def write_shard(path: Path, weights: Weights) -> int:
    """Writes a shard and returns its tensor bytes, without safetensors, whose numpy has no bfloat16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, values in weights.items():
        kind, stored = _stored(values)
        header[name] = {
            "dtype": kind,
            "shape": list(values.shape),
            "data_offsets": [len(body), len(body) + len(stored)],
        }
        body += stored
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return len(body)


def _stored(values: np.ndarray) -> tuple[str, bytes]:
    if values.dtype == np.uint8:
        return "U8", values.tobytes()
    return "BF16", (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).tobytes()
