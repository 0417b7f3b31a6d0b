"""Passes as CUDA graphs of a few fixed sizes ("rooms"): a hundred kernels in one launch.

Launching the kernels of a small pass one by one takes the host longer than the pass takes the device. For a large pass,
launching takes about half the time of the only thread that can prepare the next one. A pass goes into the smallest room
that holds it; filler sequences, whose results are ignored, take the rest. Under load, passes are full and need little
filler.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .packing import TILE, Form, Ids, Packed

SMALL = (32, 64, 128, 256, 512, 1024, 2048)
TOKENS_PER_SEQUENCE = 16
"""Smallest average length of sequences for which a room is filled by its tokens, not by its number of sequences."""


def rooms(longest: int, budget: int, small: bool = False) -> list[Form]:
    """The rooms to capture for texts up to `longest` tokens, smallest first; above 2,048 tokens in steps of a sixteenth
    of `budget`."""
    large = [] if small else [budget * part // 16 // TILE * TILE for part in range(1, 17)]
    sizes = [size for size in SMALL if size <= budget] + [size for size in large if size > SMALL[-1]]
    return [Form(size, max(2, size // TOKENS_PER_SEQUENCE), min(size, longest)) for size in sizes]


def smallest(offered: Sequence[Form], sequences: Sequence[Ids]) -> Form | None:
    """The smallest room that holds `sequences` and filler for the rest; None if all are too small."""
    tokens, longest = sum(map(len, sequences)), max(map(len, sequences))
    for room in offered:
        fillers = -(-(room.tokens - tokens) // room.longest)
        if tokens <= room.tokens and longest <= room.longest and len(sequences) + fillers <= room.sequences:
            return room
    return None


class Graphs:
    """Captured passes by room. All run one after the other in `stream`, so they share one memory pool.

    They are also captured in `stream`: the library keeps one workspace per stream, so that passes captured in the same
    stream would share it.
    """

    def __init__(self, compute: Callable[[Packed], Tensor], stream: torch.cuda.Stream) -> None:
        self._compute, self.stream = compute, stream
        self._captured: dict[Form, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self.offered: list[Form] = []

    def capture(self, wanted: Sequence[Form], example: Callable[[Form], Tensor]) -> None:
        """Captures a graph for every room of `wanted`; `example` returns a packed row [room.size] for a room.

        Raises: torch.OutOfMemoryError if the widest pass runs out of memory.
        """
        with torch.cuda.stream(self.stream):
            rows = {room: example(room).to(self.stream.device) for room in wanted}
            for room, row in rows.items():  # once before the capture, so that nothing is loaded or compiled during it
                self._compute(Packed.of_row(row, room))
        torch.cuda.synchronize(self.stream.device)
        # Frees the workspace of these passes; otherwise it would be held beside the graphs' own.
        torch.cuda.empty_cache()
        pool = None
        # The largest first, because it sets the size of the pool.
        for room in sorted(wanted, key=lambda room: room.tokens, reverse=True):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                out = self._compute(Packed.of_row(rows[room], room))
            pool = pool or graph.pool()
            self._captured[room] = (graph, rows[room], out)
        self.offered = sorted(self._captured, key=lambda room: room.tokens)

    def clear(self) -> None:
        """Drops every captured graph, and frees the pool's memory."""
        self._captured.clear()
        self.offered = []

    def run(self, room: Form, row: Tensor) -> Tensor:
        """The results [room.sequences, …] of the pass `row` [room.size]; the next run overwrites them."""
        graph, held, out = self._captured[room]
        held.copy_(row, non_blocking=True)
        graph.replay()
        return out
