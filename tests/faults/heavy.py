"""A checkpoint that takes long to send: the mixture of experts and one tensor of random bytes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from rehearsal.services import read_services
from tests.faults.scene import PLACES

PIECE = 16 << 20


def checkpoint(mib: int) -> Path:
    """Returns the directory that the inventory `heavy` names; writes it unless its size is right already."""
    place = PLACES.root / "heavy"
    extra = place / "extra.safetensors"
    if extra.exists() and extra.stat().st_size >> 20 == mib:
        return place
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(read_services().checkpoints / "nomic-moe", place)
    size = mib << 20
    header = json.dumps({"extra": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with extra.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for begin in range(0, size, PIECE):
            file.write(os.urandom(min(PIECE, size - begin)))
    return place
