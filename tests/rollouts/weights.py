"""Changed copies of the embedder's checkpoint at the inventory's paths."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

Tensors = dict[str, Any]
LAST = "encoder.layer.5.output.LayerNorm.weight"


def _lacking(weights: Tensors) -> Tensors:
    return {name: tensor for name, tensor in weights.items() if name != LAST}


def _spoilt(weights: Tensors) -> Tensors:
    return weights | {LAST: np.full_like(weights[LAST], np.nan)}


KINDS: Mapping[str, Callable[[Tensors], Tensors]] = {"unloadable": _lacking, "wrong": _spoilt, "moved": dict}
"""Changes of a checkpoint by kind: without a tensor it does not load; with a tensor of NaN it loads and becomes ready,
but answers wrongly; with other bytes and the same numbers it is only a new file that has to be sent."""


def make(checkpoint: Path, into: Path) -> None:
    """Writes a directory of each kind from the checkpoint, unless it exists."""
    for kind, changed in KINDS.items():
        place = into / kind
        if (place / "made").exists():
            continue
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(checkpoint, place)
        file = place / "model.safetensors"
        save_file(changed(load_file(file)), file, metadata={"format": "pt", "kind": kind})
        (place / "made").touch()
