"""All sequences of all requests as micro-batches of one forward pass each, bounded by a budget of padded tokens.

Sorted by length, so a micro-batch pads little; longest first, so the pass that needs most memory comes first. What a
request gets does not depend on which others share its passes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from .errors import RequestError

Forward = Callable[[Sequence[Sequence[int]]], np.ndarray]


@dataclass
class Job:
    """One request on its way through: its sequences, then a result for each, or the error it is answered with."""

    sequences: list[list[int]] = field(default_factory=list)
    results: list[np.ndarray] = field(default_factory=list)
    error: Exception | None = None
    is_cancelled: Callable[[], bool] = lambda: False

    def expect(self, sequences: list[list[int]]) -> None:
        """`sequences` are to be run; results come in the same order."""
        self.sequences = sequences
        self.results = [np.empty(0)] * len(sequences)


Slot = tuple[Job, int]


def run(jobs: Iterable[Job], forward: Forward, budget: int) -> None:
    """Every job has all its results, or an error: CANCELLED, UNAVAILABLE (memory), or what the pass raised.

    Out of memory halves the budget for the rest of this call and tries the same sequences again.
    """
    waiting = [(job, slot) for job in jobs for slot in range(len(job.sequences))]
    waiting.sort(key=_length, reverse=True)
    while waiting := _still_wanted(waiting):
        batch = waiting[: fitting([_length(slot) for slot in waiting], budget)]
        try:
            results = forward([job.sequences[slot] for job, slot in batch])
        except torch.OutOfMemoryError:
            if len(batch) > 1:
                budget = len(batch) * _length(batch[0]) // 2
                continue
            _fail(batch, RequestError("out of memory for a single sequence; send it again later", "UNAVAILABLE"))
        except Exception as error:
            _fail(batch, error)
        else:
            for (job, slot), result in zip(batch, results, strict=True):
                job.results[slot] = result
        waiting = waiting[len(batch) :]


def fitting(lengths: Sequence[int], budget: int) -> int:
    """How many of `lengths`, longest first, share one pass: rows x longest within `budget`, one row at the least."""
    return min(len(lengths), max(1, budget // lengths[0]))


def _length(slot: Slot) -> int:
    job, index = slot
    return len(job.sequences[index])


def _still_wanted(waiting: list[Slot]) -> list[Slot]:
    for job in {id(job): job for job, _ in waiting}.values():
        if job.error is None and job.is_cancelled():
            job.error = RequestError("cancelled by the client", "CANCELLED")
    return [(job, slot) for job, slot in waiting if job.error is None]


def _fail(batch: list[Slot], error: Exception) -> None:
    for job, _ in batch:
        job.error = error
