"""Token sequences as one packed row, the form the networks read, built on the host in one int32 array.

    ids | positions | starts        tokens, tokens, sequences + 1

One array, so one copy brings it to the device. `positions` count within each sequence, as its network counts. Filling
tokens, where a pass needs a round number of them, form sequences of their own after the real ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

Ids = np.ndarray
"""Token ids of one sequence, int32."""


@dataclass(frozen=True)
class Packed:
    """One pass on its device."""

    ids: Tensor
    positions: Tensor
    starts: Tensor
    longest: int

    @classmethod
    def over(cls, row: Tensor, tokens: int, longest: int) -> "Packed":
        """Views of the three parts of `row`."""
        return cls(row[:tokens], row[tokens : 2 * tokens], row[2 * tokens :], longest)


@dataclass(frozen=True)
class Form:
    """Room of one pass: how many tokens and sequences, and the longest sequence."""

    tokens: int
    sequences: int
    longest: int

    @property
    def size(self) -> int:
        """Numbers in the packed row."""
        return 2 * self.tokens + self.sequences + 1


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
    ids, positions, starts = row[: room.tokens], row[room.tokens : 2 * room.tokens], row[2 * room.tokens :]
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
    return row
