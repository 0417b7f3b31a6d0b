"""Token sequences as one packed row, the form the networks read, built on the host in one int32 array.

    ids | positions | starts | tiles        tokens, tokens, sequences + 1, 1 + 2 x tiles

One array, so one copy brings it to the device. `positions` count within each sequence, as its network counts. `tiles`
cut every sequence into runs of TILE tokens: how many runs, the sequence of each, then which run of it each is. Filling
tokens, where a pass needs a round number of them, form sequences of their own after the real ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

TILE = 64

Ids = np.ndarray
"""Token ids of one sequence, int32."""


@dataclass(frozen=True)
class Packed:
    """One pass on its device."""

    ids: Tensor
    positions: Tensor
    starts: Tensor
    tiles: Tensor
    longest: int

    @classmethod
    def over(cls, row: Tensor, room: "Form") -> "Packed":
        """Views of the parts of `row`."""
        parts = (room.tokens, room.tokens, room.sequences + 1, 1 + 2 * room.tiles)
        return cls(*row.split(parts), room.longest)


@dataclass(frozen=True)
class Form:
    """Room of one pass: how many tokens and sequences, and the longest sequence."""

    tokens: int
    sequences: int
    longest: int

    @property
    def tiles(self) -> int:
        """The most runs of TILE tokens that so many sequences of so many tokens have."""
        return self.tokens // TILE + self.sequences

    @property
    def size(self) -> int:
        """Numbers in the packed row."""
        return 2 * self.tokens + self.sequences + 2 + 2 * self.tiles


def form(sequences: Sequence[Ids], multiple: int = 1) -> Form:
    """The room `sequences` need, tokens rounded up to a `multiple`."""
    lengths = [len(ids) for ids in sequences]
    real, longest = sum(lengths), max(lengths)
    tokens = -(-real // multiple) * multiple
    return Form(tokens, len(sequences) + -(-(tokens - real) // longest), longest)


def pack(sequences: Sequence[Ids], room: Form, filler: int, counted_from: int = 0, uncounted: int = -1) -> np.ndarray:
    """The packed row of `sequences` in `room`; positions start at `counted_from`.

    A token `uncounted` inside a text takes no position: XLM-RoBERTa counts around a literal <pad>, as in training,
    and gives it the position before the first.
    """
    row = np.empty(room.size, np.int32)
    ends = np.cumsum((room.tokens, room.tokens, room.sequences + 1))
    ids, positions, starts, tiles = np.split(row, ends)
    real = sum(len(sequence) for sequence in sequences)
    np.concatenate(sequences, out=ids[:real])
    ids[real:] = filler
    lengths = np.fromiter((len(sequence) for sequence in sequences), np.int32, len(sequences))
    starts[0] = 0
    np.cumsum(lengths, out=starts[1 : len(sequences) + 1])
    filling = real + room.longest * np.arange(1, room.sequences - len(sequences) + 1)
    starts[len(sequences) + 1 :] = np.minimum(filling, room.tokens)
    begin = np.repeat(starts[:-1], np.diff(starts))
    positions[:] = np.arange(room.tokens, dtype=np.int32) - begin + counted_from
    if uncounted >= 0 and (mine := ids[:real] == uncounted).any():
        before = np.concatenate(([0], np.cumsum(mine)))  # uncounted tokens before each token of the pass
        skipped = before[1:] - before[begin[:real]]
        positions[:real] = np.where(mine, counted_from - 1, positions[:real] - skipped)
    tiles[0] = _cut(starts, tiles[1:].reshape(2, -1))
    return row


def _cut(starts: np.ndarray, tiles: np.ndarray) -> int:
    counts = -(-np.diff(starts) // TILE)
    total = int(counts.sum())
    tiles[0, :total] = np.repeat(np.arange(len(counts)), counts)
    tiles[1, :total] = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return total
