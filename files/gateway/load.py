"""Shares of a process for clients' inputs: bytes of bodies, and turns at large work; fair among tenants.

Keys of one tenant count together, so that a share is left for the other tenants.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from gateway.errors import ApiError

TENANT_ANSWER_BYTES, ANSWER_BYTES = 2**28, 2**29
"""Bytes of vectors as JSON, and of an LLM's whole answers, that a process holds until clients take them, for one tenant
and for all. For scale: 2,048 vectors of 1,024 numbers have 50 MB."""
LONG_TURNS = 2
"""Long inputs that are parsed or tokenised at the same time, each in its own process; short inputs share one
process."""
WAITING = 256
"""Inputs of one tenant that may wait for a turn. Their memory is limited by their bytes (`Held`)."""
MOST_WAITING = 2048
"""Inputs of all tenants that may wait for a turn."""
PIECE_SECONDS = 0.002
"""Seconds of work in the event loop before a pause of the same length."""
AT_ONCE = 64
"""Messages that are read without a pause, at 36 us each (2026-11-25, two cores of an unnamed x86-64 VM)."""

T = TypeVar("T")


class Turns:
    """Turns of work in other processes. Short work has its own turn, so that it does not wait for long work."""

    def __init__(self) -> None:
        self.short, self.long = Line(1), Line(LONG_TURNS)


class Line:
    """A queue for a number of turns. Waiting tenants alternate; no tenant has all of several turns."""

    def __init__(self, count: int, waiting: int = WAITING, most_waiting: int = MOST_WAITING) -> None:
        self._count, self._most, self._most_together = count, waiting, most_waiting
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def work(self, tenant: str, job: Callable[[], Awaitable[T]]) -> T:
        """The job's result, once it is the tenant's turn. A client that disconnects does not stop work that has begun.

        Raises: ApiError 429 if too many of the tenant's jobs wait, 503 if too many of all tenants do.
        """
        await self._enter(tenant)
        task = asyncio.ensure_future(job())

        def end_turn(done: asyncio.Future[T]) -> None:
            if not done.cancelled():
                done.exception()  # marks the exception as retrieved: the client may have disconnected
            self._end_turn(tenant)

        task.add_done_callback(end_turn)
        return await asyncio.shield(task)

    def _may_run(self, tenant: str) -> bool:
        own = max(self._count - 1, 1)
        return self._running.total() < self._count and self._running[tenant] < own

    async def _enter(self, tenant: str) -> None:
        if self._may_run(tenant):
            self._running[tenant] += 1
            return
        waiting = self._waiting.setdefault(tenant, deque())
        if len(waiting) >= self._most:
            message = f"{len(waiting)} large requests of this tenant wait to be read, which is the limit"
            raise ApiError(429, f"{message}; try again in 2 s", code="rate_limit_exceeded", retry_after=2)
        if sum(map(len, self._waiting.values())) >= self._most_together:
            raise ApiError(503, "too many large requests wait to be read", code="overloaded", retry_after=2)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn arrived as the client disconnected
                self._end_turn(tenant)
            elif turn in waiting:
                waiting.remove(turn)
            self._forget(tenant)
            raise

    def _end_turn(self, tenant: str) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        if tenant in self._waiting:
            self._waiting.move_to_end(tenant)
        for name in list(self._waiting):
            waiting = self._waiting[name]
            while waiting and self._may_run(name):
                turn = waiting.popleft()
                if not turn.done():
                    self._running[name] += 1
                    turn.set_result(None)
                    self._waiting.move_to_end(name)
                    break
            self._forget(name)

    def _forget(self, tenant: str) -> None:
        if not self._waiting.get(tenant, True):
            del self._waiting[tenant]


class Pauses:
    """Pauses of long work in the event loop, which is done in pieces of `PIECE_SECONDS`.

    An event of a stream takes several rounds of the loop, each of which a piece could delay. So there is a pause
    between any two pieces, and requests with long work take turns.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def pause(self) -> None:
        async with self._turn:
            await asyncio.sleep(PIECE_SECONDS)

    async def read_all(self, messages: Iterable[T], read: Callable[[T], object]) -> None:
        """Reads the messages, and pauses after every `AT_ONCE`."""
        for number, message in enumerate(messages, 1):
            read(message)
            if number % AT_ONCE == 0:
                await self.pause()


class Held:
    """The bytes of a request's body, or of its answer, in a process; `held` has those of every tenant."""

    def __init__(self, held: Counter[str], tenant: str, most_of_tenant: int, most: int, name: str = "bodies") -> None:
        self._name = name
        self._held, self._tenant, self._most_of_tenant, self._most = held, tenant, most_of_tenant, most
        self._bytes = 0

    def take(self, count: int) -> None:
        """Adds to the held bytes.

        Raises: ApiError 429 if the tenant holds too many bytes, 503 if all tenants together do.
        """
        if self._held[self._tenant] + count > self._most_of_tenant:
            message = f"{self._name} of this tenant's requests have more than {self._most_of_tenant} bytes together"
            raise ApiError(429, f"{message}; try again in 2 s", code="rate_limit_exceeded", retry_after=2)
        if self._held.total() + count > self._most:
            raise ApiError(503, f"the gateway's memory for {self._name} is full", code="overloaded", retry_after=2)
        self._held[self._tenant] += count
        self._bytes += count

    def release(self) -> None:
        """Frees the bytes of the body."""
        self._held[self._tenant] -= self._bytes
        self._bytes = 0
        if not self._held[self._tenant]:
            del self._held[self._tenant]
