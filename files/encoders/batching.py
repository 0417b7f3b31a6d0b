"""Packs the sequences of all requests into passes within a token budget. Without threads, and pure except for `launch`.

Requests are taken in order of arrival, a window of a few budgets at a time. So a request waits at most for the earlier
requests and one window. Within a window sequences are sorted by length, longest first, and cut into passes. Two passes
are under way: the device computes one while the host prepares and reads the other. While full passes wait, a device
with several streams computes one pass per stream, and another is queued behind each. With fewer waiting passes, two
streams would only delay both. A request's result does not depend on the other requests in its passes.
"""

import math
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from .errors import RequestError, worker_stopped
from .packing import Ids

WINDOW = 2  # budgets
# Each check of a client is a round trip to Triton, in the thread that the device waits for.
ASKED_AFTER_SECONDS = 0.25
"""After this wait, every pass first checks whether the request's client has disconnected."""


class Pass(Protocol):
    """A running pass."""

    def wait(self) -> np.ndarray:
        """Waits for the pass, and returns a result per sequence, [sequences, …]."""


Launch = Callable[[Sequence[Ids], bool], Pass]
"""Sequences, and whether the pass may run beside the one launched before it."""


@dataclass
class Job:
    """A request in progress: its sequences, then a result for each sequence, or the request's error."""

    sequences: list[Ids] = field(default_factory=list)
    results: list[np.ndarray] = field(default_factory=list)
    error: Exception | None = None
    is_cancelled: Callable[[], bool] = lambda: False
    finish: Callable[["Job"], None] = lambda job: None
    """Called once, with all results or an error."""
    answered: Callable[[Any], object] = lambda response: None
    """Called with the response."""
    left: int = 0
    """Results still missing."""
    tokens: int = 0
    """Tokens of all sequences together."""
    letters: int = 0
    """Characters of all its texts together."""
    arrived: float = 0.0
    """Time of arrival at the batcher, by the monotonic clock."""

    def expect(self, sequences: list[Ids]) -> None:
        """Sets the sequences to run; results come in the same order."""
        self.sequences, self.left, self.tokens = sequences, len(sequences), sum(map(len, sequences))
        self.results = [np.empty(0)] * len(sequences)


Slot = tuple[Job, int]


class Batcher:
    """Turns jobs into passes, launches them, and writes the results into the jobs; any thread may call `step`."""

    def __init__(self, launch: Launch, budget: int, streams: int = 1) -> None:
        self.budget, self.launch = budget, launch
        self._under_way = 2 * streams
        self._arrived: deque[Job] = deque()
        self._arrived_tokens = 0
        self._window: list[Slot] = []
        self._window_tokens = 0
        self._allowed = budget
        self._cautious = 0
        """Tokens to compute in reduced passes of `_allowed` tokens before a full pass is tried again."""
        self._running: deque[tuple[list[Slot], Pass]] = deque()
        self.waiting = 0
        """Tokens that wait for a pass."""
        self.launched: Callable[[int, int], None] = lambda sequences, tokens: None

    def add(self, job: Job) -> None:
        """Adds a job to the waiting ones; finishes a job without sequences at once."""
        if job.error is not None or not job.sequences:
            job.finish(job)
        else:
            job.arrived = time.monotonic()
            self._arrived.append(job)
            self._arrived_tokens += job.tokens
            self.waiting += job.tokens

    def abandon(self) -> list[Job]:
        """Removes and returns the unfinished jobs: those with neither all results nor an error."""
        slots = [*self._window, *(slot for batch, _ in self._running for slot in batch)]
        jobs = {id(job): job for job in [*self._arrived, *(job for job, _ in slots)] if job.error is None and job.left}
        self._arrived.clear()
        self._window.clear()
        self._running.clear()
        return list(jobs.values())

    @property
    def busy(self) -> bool:
        """True if there is a pass to launch or to wait for."""
        return bool(self._arrived or self._window or self._running)

    def step(self) -> None:
        """Launches the next pass. If enough passes run, or none is left to launch, delivers the results of the oldest.

        Raises: exceptions that end a thread (SystemExit, a panic), after failing the jobs of the pass with
        `worker_stopped`.
        """
        if self._arrived and self._window_tokens < self.budget:
            self._widen()
        enough = self._under_way if self._window_tokens >= self.budget else 2
        if self._window and len(self._running) < enough:
            self._start()
        elif self._running:
            self._deliver(*self._running.popleft())
        self.waiting = self._arrived_tokens + self._window_tokens

    def _widen(self) -> None:
        """Appends a new window to the rest of the old one; the rest is taken first, and passes stay full."""
        room, old = WINDOW * self.budget, len(self._window)
        while self._arrived and (len(self._window) == old or self._arrived[0].tokens <= room):
            job = self._arrived[0]
            self._window += [(job, index) for index in range(len(job.sequences))]
            self._arrived.popleft()  # removed last, so that `abandon` still finds this job if the thread dies before
            room -= job.tokens
            self._arrived_tokens -= job.tokens
            self._window_tokens += job.tokens
        self._window[old:] = sorted(self._window[old:], key=_length, reverse=True)

    def _start(self) -> None:
        self._drop_unwanted()
        if not self._window:
            return
        count = cut(map(_length, self._window), self._allowed)
        batch, self._window = self._window[:count], self._window[count:]
        tokens = sum(map(_length, batch))
        self._window_tokens -= tokens
        try:
            sequences = [job.sequences[index] for job, index in batch]
            self._running.append((batch, self.launch(sequences, bool(self._window))))
            self.launched(len(batch), tokens)
            self._cautious -= tokens
            if self._cautious <= 0:
                self._allowed = self.budget
        except torch.OutOfMemoryError:
            self._try_smaller(batch, tokens)
        except Exception as error:
            _fail(batch, error)
        except BaseException:  # the thread ends, and `abandon` no longer finds this batch
            _fail(batch, worker_stopped())
            raise

    def _try_smaller(self, batch: list[Slot], tokens: int) -> None:
        self._window = batch + self._window
        self._window_tokens += tokens
        while self._running:  # running passes hold memory
            self._deliver(*self._running.popleft())
        if len(batch) == 1:  # the next `step` drops it from the window
            _fail(batch, RequestError("out of memory for a single sequence; send it again later", "UNAVAILABLE"))
            return
        self._allowed, self._cautious = tokens // 2, self._window_tokens

    def _deliver(self, batch: list[Slot], running: Pass) -> None:
        try:
            results = running.wait()
            delivered = list(zip(batch, results, _sound(results), strict=True))
        except Exception as error:
            _fail(batch, error)
            return
        except BaseException:
            _fail(batch, worker_stopped())
            raise
        for (job, index), result, good in delivered:
            if not good:
                _fail([(job, index)], ArithmeticError("a result is not finite"))
            elif job.error is None:
                job.results[index] = result
                job.left -= 1
                if job.left == 0:
                    job.finish(job)

    def _drop_unwanted(self) -> None:
        jobs = {id(job): job for job, _ in self._window}.values()
        early = time.monotonic() - ASKED_AFTER_SECONDS
        for job in jobs:
            if job.error is None and job.arrived <= early and _is_cancelled(job):
                _fail([(job, 0)], RequestError("cancelled by the client", "CANCELLED"))
        if any(job.error is not None for job in jobs):
            self._window = [slot for slot in self._window if slot[0].error is None]
            self._window_tokens = sum(map(_length, self._window))


def run(
    jobs: Iterable[Job], launch: Launch, budget: int, launched: Callable[[int, int], None] = lambda *_: None
) -> None:
    """Runs passes until every job has all its results or an error: CANCELLED, UNAVAILABLE (memory), or the error of its
    pass."""
    batcher = Batcher(launch, budget)
    batcher.launched = launched
    for job in jobs:
        batcher.add(job)
    while batcher.busy:
        batcher.step()


def cut(lengths: Iterable[int], budget: int) -> int:
    """Number of sequences from the start of `lengths` that fit into a pass of `budget` tokens; at least 1."""
    taken = tokens = 0
    for length in lengths:
        tokens += length
        if taken and tokens > budget:
            break
        taken += 1
    return taken


def _sound(results: np.ndarray) -> list[bool]:
    """True for each row of finite numbers. If the sum of all is finite, the rows are not checked one by one."""
    with np.errstate(all="ignore"):
        total = results.sum()
    if math.isfinite(total):
        return [True] * len(results)
    return [bool(sound) for sound in np.isfinite(results).reshape(len(results), -1).all(1)]


def _length(slot: Slot) -> int:
    job, index = slot
    return len(job.sequences[index])


def _is_cancelled(job: Job) -> bool:
    try:
        return job.is_cancelled()
    except Exception:  # if Triton does not answer the check, the request continues
        return False


def _fail(batch: list[Slot], error: Exception) -> None:
    # The frames keep the pass's tensors on the device as long as the error exists.
    traceback.clear_frames(error.__traceback__)
    for job, _ in batch:
        if job.error is None:
            job.error = error
            job.finish(job)
