"""Packs token sequences into one int32 row, the networks' input, on the host.

    ids | positions | starts | tiles        tokens, tokens, sequences + 1, 1 + 2 x tiles

A single array needs a single copy to the device. `positions` count within each sequence, by the network's rule. `tiles`
splits every sequence into runs of TILE tokens: the number of runs, the sequence of each run, then its index in that
sequence. If a pass needs a round number of tokens, filler sequences follow the real ones.
"""

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from torch import Tensor

TILE = 64
NUMBER = 4
"""Bytes of an int32."""

Ids = np.ndarray
"""Token ids of one sequence, int32."""


@dataclass(frozen=True)
class Packed:
    """A packed pass on its device."""

    ids: Tensor
    positions: Tensor
    starts: Tensor
    tiles: Tensor
    longest: int

    @classmethod
    def of_row(cls, row: Tensor, room: "Form") -> "Packed":
        """Views of the parts of `row`, int32 [room.size]."""
        parts = (room.tokens, room.tokens, room.sequences + 1, 1 + 2 * room.tiles)
        ids, positions, starts, tiles = row.split(parts)
        return cls(ids, positions, starts, tiles, room.longest)


@dataclass(frozen=True)
class Form:
    """Size of a pass: numbers of tokens and sequences, and the longest sequence."""

    tokens: int
    sequences: int
    longest: int

    @property
    def tiles(self) -> int:
        """Largest number of runs of TILE tokens for these numbers of sequences and tokens."""
        return self.tokens // TILE + self.sequences

    @property
    def size(self) -> int:
        """Numbers in the packed row."""
        return 2 * self.tokens + self.sequences + 2 + 2 * self.tiles


def form(sequences: Sequence[Ids], multiple: int = 1) -> Form:
    """The size that `sequences` need, with tokens rounded up to a `multiple`."""
    lengths = [len(ids) for ids in sequences]
    real, longest = sum(lengths), max(lengths)
    tokens = -(-real // multiple) * multiple
    return Form(tokens, len(sequences) + -(-(tokens - real) // longest), longest)


def pack(
    sequences: Sequence[Ids],
    room: Form,
    filler: int,
    counted_from: int = 0,
    uncounted: int = -1,
    second_rows: int = 0,
    into: np.ndarray | None = None,
) -> np.ndarray:
    """The packed row of `sequences` in `room`, int32 [room.size], written `into` memory of that size, if present.

    Positions start at `counted_from`. With `second_rows`, the tokens of a pair's second text are encoded as ~id, and
    `second_rows` is added to their positions. A token `uncounted` inside a text takes no position: as in training,
    XLM-RoBERTa skips a literal <pad>, which gets the position before the first.

    Joins bytes instead of arrays: an array operation releases Python's lock, and the other threads of a busy server
    hold the lock for longer than this function runs.
    """
    sizes = [len(sequence) for sequence in sequences]
    real = sum(sizes)
    rest = room.tokens - real
    while rest > 0:
        sizes.append(min(rest, room.longest))
        rest -= sizes[-1]
    numbers = _numbers(-(-(counted_from + max(room.longest, TILE)) // 1024) * 1024)
    first = numbers[NUMBER * counted_from :]
    runs = [-(-size // TILE) for size in sizes]
    tiles, unused = sum(runs), room.sequences - len(sizes)
    own = [number for number, count in enumerate(runs) for _ in range(count)]
    nothing = bytes(NUMBER * (room.tiles - tiles))
    parts: list[Any] = [
        *sequences,
        _number(filler) * (room.tokens - real),
        *[first[: NUMBER * size] for size in sizes],
        packed([*accumulate(sizes, initial=0)]),
        _number(room.tokens) * unused,
        packed([tiles, *own]),
        nothing,
        *[numbers[: NUMBER * count] for count in runs],
        nothing,
    ]
    row = np.empty(room.size, np.int32) if into is None else into
    row.data.cast("B")[:] = b"".join(parts)
    ids, positions = row[:real], row[room.tokens : room.tokens + real]
    if uncounted >= 0 and (mine := ids == uncounted).any():
        before = np.concatenate(([0], np.cumsum(mine)))  # uncounted tokens before each token of the pass
        begin = np.repeat([*accumulate(sizes, initial=0)][: len(sequences)], sizes[: len(sequences)])
        positions[:] = np.where(mine, counted_from - 1, positions - (before[1:] - before[begin]))
    if second_rows:
        second = ids < 0
        np.invert(ids, out=ids, where=second)
        np.add(positions, second_rows, out=positions, where=second)
    return row


@lru_cache(maxsize=64)
def _numbers(count: int) -> memoryview:
    """The numbers below `count`, int32, as bytes."""
    return np.arange(count, dtype=np.int32).data.cast("B")


def _number(value: int) -> bytes:
    return value.to_bytes(NUMBER, sys.byteorder, signed=True)


def packed(ids: Sequence[int]) -> bytes:
    """The ids as int32, in bytes."""
    return _layout(len(ids)).pack(*ids)  # 4 µs for 128 ids; np.array 7, np.fromiter 9


@lru_cache(maxsize=4096)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"{count}i")


def firsts(batch: Packed) -> Tensor:
    """Row of every sequence's first token, [sequences]; an unused place has an arbitrary row, which is ignored."""
    return batch.starts[:-1].clamp(max=len(batch.ids) - 1)


def lasts(batch: Packed) -> Tensor:
    """Row of every sequence's last token, [sequences]; an unused place has an arbitrary row, which is ignored."""
    return (batch.starts[1:] - 1).clamp(min=0)
