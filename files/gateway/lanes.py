"""Processes for long work, and the queue of their callers; a process that ended is replaced."""

from __future__ import annotations

import asyncio
import signal
import sys

from gateway.errors import ApiError
from gateway.load import LONG_TURNS, Turns
from gateway.worker import Program, Refused, Worker, accepted

RETRIED = -signal.SIGKILL
"""Exit status of a process that the kernel or a person killed. Its message is sent to a new process; a message that
took all of its time or memory is not."""


class Lane:
    """A process for messages one after the other; the first message starts it if it is not running."""

    def __init__(self, program: Program, worker: Worker | None = None) -> None:
        self._program, self._worker = program, worker
        self._turn = asyncio.Lock()

    async def answer(self, message: bytes) -> memoryview:
        """The process's answer; if it died of a cause other than this message, the answer of a new process.

        A client that disconnects leaves no partial answer in the socket: the work continues without it.

        Raises: Refused; ApiError 503 if no process starts.
        """
        return await asyncio.shield(asyncio.ensure_future(self._answer(message)))

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def _answer(self, message: bytes) -> memoryview:
        async with self._turn:
            for _ in range(2):
                worker = self._taken()
                if worker is None:
                    worker = await self._started()
                answer = await worker.answer(message)
                if answer is not None:
                    self._worker = worker
                    break
                if worker.ended_by() != RETRIED:
                    raise Refused(self._program.too_much)
            else:
                raise Refused(self._program.too_much)
        return accepted(answer)

    async def _started(self) -> Worker:
        try:
            return await asyncio.to_thread(Worker, self._program)
        except (Refused, OSError) as error:
            print(f"<3>{self._program.module} does not start: {error}", file=sys.stderr, flush=True)
            raise ApiError(503, "large requests cannot be read just now", code="unavailable", retry_after=5) from None

    def _taken(self) -> Worker | None:
        # Returned after its answer; the worker of a cancelled task is not returned.
        worker, self._worker = self._worker, None
        return worker


class Lanes:
    """Processes of a program: one for short messages, and several for long messages, each of which goes to an idle
    process."""

    def __init__(self, program: Program, turns: Turns, most_short: int) -> None:
        """Messages of up to `most_short` bytes are short."""
        self.turns, self._most_short = turns, most_short
        self._short, self._long = Lane(program), [Lane(program) for _ in range(LONG_TURNS)]

    async def answer(self, tenant: str, message: bytes) -> memoryview:
        """The answer of a process, once it is the tenant's turn.

        Raises: Refused; ApiError of `Line`.
        """
        if len(message) <= self._most_short:
            return await self.turns.short.work(tenant, lambda: self._short.answer(message))
        return await self.turns.long.work(tenant, lambda: self._answer_long(message))

    async def _answer_long(self, message: bytes) -> memoryview:
        return await min(self._long, key=lambda lane: lane.is_busy).answer(message)
