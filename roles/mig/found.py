"""How the GPUs of a host are cut, read out of what nvidia-smi said. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deploy.slice import Slice
from roles.seen import Seen

ON, OFF, NEVER = "Enabled", "Disabled", "[N/A]"
_GPU = re.compile(r"GPU (\d+):")
_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


@dataclass(frozen=True)
class FoundGpu:
    """One GPU: its mode now and after the next reset, and its instances in the order CDI numbers them."""

    index: int
    current: str
    pending: str
    instances: tuple[str, ...]

    def is_cut(self, wanted: tuple[str, ...]) -> bool:
        """True if the GPU is cut into exactly `wanted`; for none its mode is off, or it has no MIG."""
        if not wanted:
            return OFF == self.current == self.pending or self.current == NEVER
        return ON == self.current == self.pending and self.instances == wanted


def gpus(seen: Seen) -> tuple[FoundGpu, ...]:
    """Every GPU the driver shows; none without a driver."""
    listed, number = dict[int, list[str]](), -1
    for line in seen.value("listed").splitlines():
        if match := _GPU.match(line):
            number = int(match[1])
        elif match := _DEVICE.match(line):
            listed.setdefault(number, []).append(match[1])
    rows = [[field.strip() for field in line.split(",")] for line in seen.value("modes").splitlines()]
    return tuple(
        FoundGpu(int(row[0]), row[1], row[2], tuple(listed.get(int(row[0]), ())))
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    )


def is_cut(seen: Seen, mine: Slice) -> bool:
    """True if every GPU is as planned; a GPU that is to be cut has to be there."""
    present = gpus(seen)
    return all(gpu.is_cut(mine.mig) for gpu in present) and (not mine.mig or len(present) == mine.machine.gpus)
