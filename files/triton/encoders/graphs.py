"""Passes as CUDA graphs: a hundred kernels in one launch, in rooms of a few fixed sizes.

Launching kernels one by one costs the host more than a small pass costs the device, and of a large pass about half
the time of the only thread that could prepare the next. A pass is laid into the smallest room that holds it; the rest
of the room is filled with sequences that nobody reads. Where that would waste much of a large room, the pass runs
without a graph.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .packing import TILE, Form, Ids, Packed

SMALL = (32, 64, 128, 256, 512, 1024, 2048)
WASTE_PERCENT = 8
"""Filling a large room may carry, in percent of what is in it."""


def rooms(longest: int, budget: int, small: bool = False) -> list[Form]:
    """The rooms worth a graph, smallest first, for texts of up to `longest` tokens; eighths of `budget` above 2,048.

    A sequence of 16 tokens is as short as small rooms expect on average, and of 32 as large ones do.
    """
    large = [] if small else [budget * part // 8 // TILE * TILE for part in range(1, 9)]
    sizes = [(size, 16) for size in SMALL if size <= budget] + [(size, 32) for size in large if size > SMALL[-1]]
    return [Form(size, max(2, size // expected), min(size, longest)) for size, expected in sizes]


def smallest(offered: Sequence[Form], sequences: Sequence[Ids]) -> Form | None:
    """The first room that holds `sequences` and whose rest can be filled, if that is not too much to fill."""
    tokens, longest = sum(map(len, sequences)), max(map(len, sequences))
    for room in offered:
        fillers = -(-(room.tokens - tokens) // room.longest)
        if tokens <= room.tokens and longest <= room.longest and len(sequences) + fillers <= room.sequences:
            return room if room.tokens <= max(SMALL[-1], tokens * (100 + WASTE_PERCENT) // 100) else None
    return None


class Graphs:
    """Captured passes by room; all share one pool of memory, since they never run at the same time."""

    def __init__(self, compute: Callable[[Packed], Tensor], device: str) -> None:
        self._compute, self._device = compute, device
        self._captured: dict[Form, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self.offered: list[Form] = []

    def capture(self, wanted: Sequence[Form], example: Callable[[Form], Tensor]) -> None:
        """Every room of `wanted` can be replayed; `example` is a packed row for one."""
        pool = None
        for room in sorted(wanted, key=lambda room: room.tokens, reverse=True):  # the largest shapes the pool
            row = example(room).to(self._device)
            batch = Packed.over(row, room)
            self._compute(batch)
            torch.cuda.synchronize(self._device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = self._compute(batch)
            pool = pool or graph.pool()
            self._captured[room] = (graph, row, out)
        self.offered = sorted(self._captured, key=lambda room: room.tokens)

    def run(self, room: Form, row: Tensor) -> Tensor:
        """The results of the pass `row`; overwritten by the next run."""
        graph, held, out = self._captured[room]
        held.copy_(row, non_blocking=True)
        graph.replay()
        return out
