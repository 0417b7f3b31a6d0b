"""Threads between `execute` and the clients, so that the device does not wait for tokenising or sending.

    encode   texts to token ids, in ENCODERS threads; the tokeniser lets go of the GIL and has threads of its own
    compute  ids to passes on the device, two under way (batching.py decides what shares a pass)
    reply    results to tensors to clients

A bounded queue connects each stage with the next; a faster stage blocks. Further requests wait in Triton's own queue,
which answers UNAVAILABLE when it is full. This module has only threads and queues; other modules decide. If a thread
dies, the model is no longer ready, and the other threads end. They fail the jobs that they hold, and those in queues
without a reader.
"""

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from .batching import Batcher, Job, run
from .errors import worker_stopped
from .metrics import Meter

AHEAD = 2  # budgets of encoded tokens that may wait for the device, and a batch of Triton's for each encoder
# While one encoder thread converts the tokeniser's result, which needs the GIL, the tokeniser works for the other
# thread: 21,900 texts of 126 tokens a second with one thread, 26,000 with two, the tokeniser itself with 16 threads
# (H100 host, 2026-11-22).
ENCODERS = 2
IDLE_SECONDS = 1.0
CLOSE_SECONDS = 10.0  # after the death of a thread, because another one may hang in the driver

Stage = tuple[Callable[[], None], list[threading.Thread]]
"""The threads of a stage, and a function that ends one of them."""


class Pipeline:
    """Takes jobs by `submit`; calls `reply` with each job that has its results or an error."""

    def __init__(
        self, encode: Callable[[Sequence[Job]], None], batcher: Batcher, reply: Callable[[Job], None], meter: Meter
    ) -> None:
        self._encode, self._batcher, self._reply, self._meter = encode, batcher, reply, meter
        self._raw: queue.Queue[list[Job] | None] = queue.Queue(maxsize=1)
        self._encoded: queue.Queue[list[Job] | None] = queue.Queue()
        self._finished: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._refusing = threading.Lock()
        self._handed = 0  # encoded tokens that the batcher does not have yet
        self.dead = False
        """True if a thread died; new jobs fail with `worker_stopped`."""
        self.closed = False
        """True after `close` ended every thread; new jobs fail with `worker_stopped`."""
        self._closing = threading.Lock()
        self.prompt_letters = 0
        """Largest number of characters of jobs that `at_once` computes."""
        self._submitted = self._replied = 0
        self._moved = 0.0  # time of the latest answer, or of a thread's death
        self._ended_stages: set[str] = set()  # stages without threads
        self._stages: tuple[Stage, ...] = (
            (lambda: self._put(self._raw, None), [self._started("encode", self._encoding) for _ in range(ENCODERS)]),
            (lambda: self._put(self._encoded, None), [self._started("compute", self._computing)]),
            (lambda: self._finished.put(None), [self._started("reply", self._replying)]),
        )

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queues jobs, each of which gets a reply. Blocks while the queues before the device are full."""
        self._submitted += len(jobs)
        for job in jobs:
            job.finish = self._finished.put
        self._put(self._raw, list(jobs))

    def at_once(self, jobs: Sequence[Job]) -> bool:
        """True if the calling thread has computed all jobs; the caller has to send the replies.

        Only for short jobs on an idle device: passing them through three threads would take longer than computing them.
        Their clients are not checked for disconnects.
        """
        letters = sum(job.letters for job in jobs)
        if letters > self.prompt_letters or self._submitted != self._replied or self.dead or self.closed:
            return False
        try:
            self._encode_all([job for job in jobs if job.error is None])
            run(jobs, self._batcher.launch, self._batcher.budget, self._batcher.launched)
        except BaseException as error:
            self._moved, self.dead = time.monotonic(), True
            with suppress(Exception):
                self._meter.note(f"the thread that answers at once died: {type(error).__name__}")
        for job in jobs:
            if job.left:
                job.error = job.error or worker_stopped()
        return True

    def close(self) -> None:
        """Waits until all jobs have a reply and the threads have ended, except for jobs that hang after a thread died.

        May be called again, and by several threads at once: each call waits.
        """
        with self._closing:
            if not self.closed:
                for end_one, threads in self._stages:
                    _end(end_one, threads, self._is_hung)
            self.closed = True
            self._refuse([])  # fails jobs that were submitted during the close, after the end mark of the first stage

    def _is_hung(self) -> bool:
        """True if no request was answered for CLOSE_SECONDS after a thread died; the rest is given up."""
        return self.dead and time.monotonic() > self._moved + CLOSE_SECONDS

    def _started(self, name: str, stage: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(name, stage), name=name, daemon=True)
        thread.start()
        return thread

    def _put(self, queued: "queue.Queue[list[Job] | None]", item: list[Job] | None) -> None:
        while not (self.dead or self.closed):
            try:
                queued.put(item, timeout=IDLE_SECONDS)
            except queue.Full:
                continue
            if self.dead or self.closed:  # checked again: jobs left in the queues may have been answered meanwhile
                self._refuse([])
            return
        self._refuse(item or [])

    def _encoding(self) -> None:
        while not self.dead:
            try:
                jobs = self._raw.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                continue
            if jobs is None:
                return
            self._encode_batch(jobs)
            del jobs  # otherwise the thread would keep them while it waits for more

    def _encode_batch(self, jobs: list[Job]) -> None:
        try:
            with self._room:
                self._room.wait_for(
                    lambda: self.dead or self._handed + self._batcher.waiting < AHEAD * self._batcher.budget
                )
            self._encode_all([job for job in jobs if job.error is None])
            with self._room:
                self._handed += _tokens(jobs)
        except BaseException:
            self._refuse(jobs)
            raise
        self._put(self._encoded, jobs)

    def _encode_all(self, jobs: list[Job]) -> None:
        """Sets the sequences, or the error, of every job; a failing job does not affect the others."""
        error = self._trouble_encoding(jobs)
        if error is None:
            return
        # Otherwise the frames would keep the attempt's tensors through the next attempt, until the error is delivered.
        traceback.clear_frames(error.__traceback__)
        if len(jobs) > 1:
            del error
            for job in jobs:
                self._encode_all([job])
        elif jobs:
            jobs[0].error = jobs[0].error or error

    def _trouble_encoding(self, jobs: list[Job]) -> Exception | None:
        try:
            self._encode(jobs)
        except Exception as error:
            return error
        except BaseException as error:  # a panic of the tokeniser, which is written in Rust, is not an Exception
            return RuntimeError(type(error).__name__)
        return None

    def _computing(self) -> None:
        batcher, closed = self._batcher, False
        while not self.dead and (not closed or batcher.busy):
            for jobs in self._arrivals(wait=not closed and not batcher.busy):
                closed = closed or jobs is None
                self._add(jobs or [])
                del jobs
            batcher.step()
            with self._room:
                self._room.notify_all()
            self._meter.publish(batcher.waiting)

    def _add(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._batcher.add(job)
        with self._room:
            self._handed -= _tokens(jobs)

    def _arrivals(self, wait: bool) -> Iterator[list[Job] | None]:
        try:
            yield self._encoded.get(timeout=IDLE_SECONDS) if wait else self._encoded.get_nowait()
            while True:
                yield self._encoded.get_nowait()
        except queue.Empty:
            return

    def _replying(self) -> None:
        while not (self.dead and "compute" in self._ended_stages and self._finished.empty()):
            try:
                job = self._finished.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                continue
            if job is None:
                return
            self._reply_to(job)
            del job

    def _reply_to(self, job: Job) -> None:
        try:
            self._reply(job)
            self._moved = time.monotonic()
            self._replied += 1
        except BaseException:
            job.error = job.error or worker_stopped()
            self._finished.put(job)  # probably no answer was sent yet; if one was, Triton refuses the second
            raise

    def _guarded(self, name: str, stage: Callable[[], None]) -> None:
        died = ""
        try:
            stage()
        except BaseException as error:
            died, self._moved, self.dead = type(error).__name__, time.monotonic(), True
        finally:
            self._ended_stages.add(name)
            if self.dead:
                with self._room:
                    self._room.notify_all()
                self._refuse([])
            if died:
                with suppress(Exception):
                    self._meter.note(f"thread {name} died: {died}")

    def _refuse(self, jobs: Sequence[Job]) -> None:
        """Fails these jobs, and all jobs in queues without a reader."""
        with self._refusing:
            held = [*jobs, *_drained(self._raw), *_drained(self._encoded)]
            if "compute" in self._ended_stages:
                held += self._batcher.abandon()
            for job in held:
                job.error = job.error or worker_stopped()
            if "reply" in self._ended_stages:
                with suppress(queue.Empty):
                    while True:
                        held += [job for job in [self._finished.get_nowait()] if job]
        for job in held:
            # An answer that kills a thread must not keep the other requests from their answers.
            with suppress(BaseException):
                self._reply(job)
                self._moved = time.monotonic()


def _end(end_one: Callable[[], None], threads: Sequence[threading.Thread], is_hung: Callable[[], bool]) -> None:
    """Ends each thread of a stage, and waits for it unless it hangs."""
    for _ in threads:
        end_one()
    for thread in threads:
        while thread.is_alive() and not is_hung():
            thread.join(IDLE_SECONDS)


def _drained(queued: "queue.Queue[list[Job] | None]") -> list[Job]:
    held: list[Job] = []
    with suppress(queue.Empty):
        while True:
            held += queued.get_nowait() or []
    return held


def _tokens(jobs: Sequence[Job]) -> int:
    return sum(job.tokens for job in jobs)
