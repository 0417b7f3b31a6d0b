"""A checkpoint that lacks a tensor: a release with it is published normally and never becomes ready."""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors.numpy import load_file, save_file

from tests.rehearsal.variants import UNLOADABLE

TENSOR = "encoder.layers.1.mlp.router.layer.weight"


def make_unloadable(checkpoints: Path, state: Path) -> None:
    """Writes an unloadable checkpoint to the path in the rehearsal's state directory that the inventories name."""
    broken = state / UNLOADABLE
    shutil.rmtree(broken, ignore_errors=True)
    shutil.copytree(checkpoints / "nomic-moe", broken)
    weights = load_file(broken / "model.safetensors")
    del weights[TENSOR]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
