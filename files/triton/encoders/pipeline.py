"""Threads between `execute` and the clients, so that the device never waits for text or transport.

    encode   texts to token ids, in ENCODERS threads; the tokeniser lets go of the GIL and has threads of its own
    compute  ids to passes on the device, two under way (batching.py decides what shares a pass)
    reply    results to tensors to clients

Each stage takes what the one before left; a stage that is ahead blocks, until requests wait in Triton's own queue,
which is bounded and answers UNAVAILABLE. All decisions are elsewhere; here are only threads and queues. A thread that
dies answers everything it held, and the model is no longer ready.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from .batching import Batcher, Job
from .errors import RequestError
from .metrics import Meter

AHEAD = 2  # budgets of encoded tokens that may wait for the device
# While one takes ids out of what the tokeniser made, which needs the GIL, the tokeniser works for the other: 21,900 and
# 26,000 texts of 126 tokens a second with one and two, the tokeniser alone with 16 threads (H100 host, 2026-11-22).
ENCODERS = 2
IDLE_SECONDS = 1.0


class Pipeline:
    """Jobs go in by `submit`; `reply` is called with each once it has results or an error."""

    def __init__(
        self, encode: Callable[[Sequence[Job]], None], batcher: Batcher, reply: Callable[[Job], None], meter: Meter
    ) -> None:
        self._encode, self._batcher, self._reply, self._meter = encode, batcher, reply, meter
        self._raw: queue.Queue[list[Job] | None] = queue.Queue(maxsize=1)
        self._encoded: queue.Queue[list[Job] | None] = queue.Queue()
        self._finished: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._refusing = threading.Lock()
        self._handed = 0  # tokens encoded and not yet with the batcher
        self.dead = False
        self._stages = (
            (self._raw, [self._started("encode", self._encoding) for _ in range(ENCODERS)]),
            (self._encoded, [self._started("compute", self._computing)]),
            (self._finished, [self._started("reply", self._replying)]),
        )

    def submit(self, jobs: Sequence[Job]) -> None:
        """Every one of `jobs` will be replied to. Blocks while the stages before the device have enough."""
        for job in jobs:
            job.finish = self._finished.put
        self._put(self._raw, list(jobs))

    def close(self) -> None:
        """Everything submitted has been replied to; the threads have ended."""
        for queued, threads in self._stages:
            for _ in threads:
                self._put(queued, None)
            for thread in threads:
                while thread.is_alive():
                    if self.dead:
                        return  # everything is answered, and a thread that waits for more has nobody to wake it
                    thread.join(IDLE_SECONDS)

    def _started(self, name: str, stage: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(stage,), name=name, daemon=True)
        thread.start()
        return thread

    def _put(self, queued: "queue.Queue[list[Job] | None]", item: list[Job] | None) -> None:
        while not self.dead:
            try:
                queued.put(item, timeout=IDLE_SECONDS)
            except queue.Full:
                continue
            if self.dead:  # since a moment ago: what was left in the queues may have been answered before this came
                self._refuse([])
            return
        self._refuse(item or [])

    def _encoding(self) -> None:
        while (jobs := self._raw.get()) is not None:
            with self._room:
                self._room.wait_for(
                    lambda: self.dead or self._handed + self._batcher.waiting < AHEAD * self._batcher.budget
                )
            good = [job for job in jobs if job.error is None]
            self._encode_all(good)
            with self._room:
                self._handed += _tokens(jobs)
            self._put(self._encoded, jobs)

    def _encode_all(self, jobs: list[Job]) -> None:
        """Every job has its sequences or an error, of its own: what one of them cannot have, others still do."""
        try:
            self._encode(jobs)
        except BaseException as error:  # a panic of the tokeniser's, which is written in Rust, is no Exception
            if len(jobs) > 1:
                for job in jobs:
                    self._encode_all([job])
            elif jobs:
                jobs[0].error = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)

    def _computing(self) -> None:
        batcher, closed = self._batcher, False
        while not closed or batcher.busy:
            for jobs in self._arrivals(wait=not closed and not batcher.busy):
                closed = closed or jobs is None
                for job in jobs or ():
                    batcher.add(job)
                with self._room:
                    self._handed -= _tokens(jobs or [])
            batcher.step()
            with self._room:
                self._room.notify_all()
            self._meter.publish(batcher.waiting)

    def _arrivals(self, wait: bool) -> Iterator[list[Job] | None]:
        try:
            yield self._encoded.get(timeout=IDLE_SECONDS) if wait else self._encoded.get_nowait()
            while True:
                yield self._encoded.get_nowait()
        except queue.Empty:
            return

    def _replying(self) -> None:
        while (job := self._finished.get()) is not None:
            self._reply(job)

    def _guarded(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except BaseException as error:
            self.dead = True
            with self._room:
                self._room.notify_all()
            self._meter.note(f"thread {threading.current_thread().name} died: {type(error).__name__}")
            self._refuse([])

    def _refuse(self, jobs: Sequence[Job]) -> None:
        """The jobs, and all that wait anywhere, are answered: nobody else will."""
        with self._refusing:
            held = [*jobs, *self._batcher.abandon(), *_drained(self._raw), *_drained(self._encoded)]
        for job in held:
            job.error = job.error or RequestError(
                "the model's worker has stopped; the server needs a restart", "UNAVAILABLE"
            )
            self._reply(job)


def _drained(queued: "queue.Queue[list[Job] | None]") -> list[Job]:
    held: list[Job] = []
    with suppress(queue.Empty):
        while True:
            held += queued.get_nowait() or []
    return held


def _tokens(jobs: Sequence[Job]) -> int:
    return sum(job.tokens for job in jobs)
