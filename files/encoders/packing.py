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
    """A pass on its device."""

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
    """Room of one pass: how many tokens and sequences, and the longest sequence."""

    tokens: int
    sequences: int
    longest: int

    @property
    def tiles(self) -> int:
        """Number of runs of TILE tokens that so many sequences of so many tokens have at most."""
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


def pack(
    sequences: Sequence[Ids], room: Form, filler: int, counted_from: int = 0, uncounted: int = -1, second_rows: int = 0
) -> np.ndarray:
    """The packed row of `sequences` in `room`, int32 [room.size]; positions start at `counted_from`.

    With `second_rows`, the tokens of a pair's second text come as ~id, and their positions are so many rows further on.
    A token `uncounted` inside a text takes no position: XLM-RoBERTa counts around a literal <pad>, as in training,
    and gives it the position before the first.
    """
    row = np.empty(room.size, np.int32)
    after = 2 * room.tokens
    ids, positions = row[: room.tokens], row[room.tokens : after]
    starts, tiles = row[after : after + room.sequences + 1], row[after + room.sequences + 1 :]
    sizes = np.array([len(sequence) for sequence in sequences], np.int32)
    starts[0] = 0
    sizes.cumsum(out=starts[1 : len(sizes) + 1])
    real = starts[len(sizes)]
    np.concatenate(sequences, out=ids[:real])
    ids[real:] = filler
    filling = np.arange(1, room.sequences - len(sizes) + 1, dtype=np.int32) * room.longest
    np.minimum(filling + real, room.tokens, out=starts[len(sizes) + 1 :])
    sizes = starts[1:] - starts[:-1]
    begin = starts[:-1].repeat(sizes)
    np.subtract(np.arange(counted_from, counted_from + room.tokens, dtype=np.int32), begin, out=positions)
    if uncounted >= 0 and (mine := ids[:real] == uncounted).any():
        before = np.concatenate(([0], np.cumsum(mine)))  # uncounted tokens before each token of the pass
        skipped = before[1:] - before[begin[:real]]
        positions[:real] = np.where(mine, counted_from - 1, positions[:real] - skipped)
    if second_rows:
        second = ids[:real] < 0
        np.invert(ids[:real], out=ids[:real], where=second)
        np.add(positions[:real], second_rows, out=positions[:real], where=second)
    tiles[0] = _cut(sizes, tiles[1:].reshape(2, -1))
    return row


def _cut(sizes: np.ndarray, tiles: np.ndarray) -> int:
    """Number of runs that sequences of `sizes` [sequences] have; sequence and run of each go into tiles [2, most]."""
    counts = -(-sizes // TILE)
    ends = counts.cumsum()
    total = int(ends[-1])
    tiles[0, :total] = np.arange(len(counts)).repeat(counts)
    np.subtract(np.arange(total), (ends - counts).repeat(counts), out=tiles[1, :total], casting="same_kind")
    return total


def firsts(batch: Packed) -> Tensor:
    """Row of every sequence's first token, [sequences]; room without a sequence gives some row that nobody reads."""
    return batch.starts[:-1].clamp(max=len(batch.ids) - 1)


def lasts(batch: Packed) -> Tensor:
    """Row of every sequence's last token, [sequences]; room without a sequence gives some row that nobody reads."""
    return (batch.starts[1:] - 1).clamp(min=0)
