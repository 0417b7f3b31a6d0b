"""Small passes as CUDA graphs: a query's hundred kernels in one launch, in rooms of a few fixed sizes.

Up to 2,048 tokens the host would need longer to launch the kernels one by one than the device to run them. A pass is
laid into the smallest room that holds it; the rest of the room is filled with sequences that nobody reads.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .packing import Form, Ids, Packed

SIZES = (32, 64, 128, 256, 512, 1024, 2048)
TOKENS_PER_SEQUENCE = 16


def rooms(longest: int, budget: int) -> list[Form]:
    """The rooms worth a graph, smallest first, for sequences of up to `longest` tokens."""
    return [Form(size, max(2, size // TOKENS_PER_SEQUENCE), min(size, longest)) for size in SIZES if size <= budget]


def smallest(offered: Sequence[Form], sequences: Sequence[Ids]) -> Form | None:
    """The first room that holds `sequences` and whose rest can be filled; none if all are too small."""
    tokens, longest = sum(map(len, sequences)), max(map(len, sequences))
    for room in offered:
        fillers = -(-(room.tokens - tokens) // room.longest)
        if tokens <= room.tokens and longest <= room.longest and len(sequences) + fillers <= room.sequences:
            return room
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
            batch = Packed.over(row, room.tokens, room.longest)
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
