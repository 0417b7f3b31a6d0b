"""The servers of each model: their readiness, their load, and the requests that wait for a server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.errors import ApiError, UpstreamError
from gateway.events import Event
from gateway.http_upstream import HttpUpstream
from gateway.llm_request import LlmRequest
from gateway.ready import LOOK_SECONDS, says_ready
from gateway.routing import NO_PREFIX, Known, Prefix, chosen
from gateway.servers import ServerSettings
from gateway.settings import ModelSettings, Settings
from gateway.tensors import Input, Outputs
from gateway.upstreams import events_of, upstream_of

LOOK_EVERY_SECONDS = 1.0
CATCHING_UP_SECONDS = 60.0
"""For this long after a server returns, a "full" answer is retried: the server is working off its queue."""
AGAIN_SECONDS = 0.5
CLOSE_SECONDS = 900.0
T = TypeVar("T")


class Server:
    """A Triton server, or an LLM's engine: its channel, its readiness, and its load."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.name = settings, settings.name
        self.upstream = upstream_of(settings)
        self.is_ready = True  # assumed ready until the first check, because a starting gateway takes requests at once
        self.outstanding = 0
        """Tokens of the open requests: of prompts, and of answers as long as they may become."""
        self.turn = 0
        self._back = -math.inf
        """Moment at which it became ready again, by the loop's clock."""

    async def look(self) -> bool:
        """Reads the server's readiness; true if it changed."""
        before, is_ready = self.is_ready, await self.says_ready()
        if is_ready and not before:
            if isinstance(self.upstream, HttpUpstream):
                await asyncio.to_thread(self.upstream.read_release)
            self._back = asyncio.get_running_loop().time()
        self.is_ready = is_ready
        return is_ready != before

    async def says_ready(self) -> bool:
        """True if the traffic service or the server reports ready; without an answer the last known state."""
        if not self.settings.ready_url:
            return await self.upstream.is_ready(LOOK_SECONDS)
        identity = self.settings.identity
        host_answer = await says_ready(self.settings.ready_url, context=identity.context if identity else None)
        return self.is_ready if host_answer is None else host_answer

    @property
    def catches_up(self) -> bool:
        return asyncio.get_running_loop().time() < self._back + CATCHING_UP_SECONDS

    @contextlib.contextmanager
    def carrying(self, weight: int) -> Iterator[None]:
        """While this context lasts, the server's load is higher by that weight."""
        self.outstanding += weight
        try:
            yield
        finally:
            self.outstanding -= weight


@dataclass(frozen=True)
class Work:
    """A request to a model: its `weight` in tokens, and `prefix`, hashes of the prompt's beginnings.

    `report_server` gets the chosen server's name, `queued` the seconds of waiting for a ready one; `tenant` owns the
    request. `trace` is its `traceparent`, "" if it is not traced.
    """

    model: ModelSettings
    weight: int
    report_server: Callable[[str], None]
    queued: Callable[[float], None]
    prefix: Prefix = NO_PREFIX
    tenant: str = ""
    trace: str = ""
    may_wait: bool = True
    """True if the request waits for a ready server; False if an alias's fallback answers meanwhile."""


@dataclass(eq=False)
class Held:
    """A request that waits for a server; `has_place` is False once it lost its place to another tenant's."""

    tenant: str
    has_place: bool = True


class Fleet:
    """All servers of the settings, and the known state of each."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self._hold_seconds, self._most_held = 0, 0
        self._held: list[Held] = []
        self._changed = asyncio.Event()
        self._turns = itertools.count(1)
        self._known = Known()
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, settings: Settings) -> None:
        """Takes over the servers of the settings. An unchanged server keeps its channel and its requests."""
        self._hold_seconds, self._most_held = settings.hold_seconds, settings.limits.held
        before, self.servers = self.servers, {}
        for name, wanted in settings.servers.items():
            known = before.pop(name, None)
            if known and known.settings == wanted:
                self.servers[name] = known
            else:
                self.servers[name] = Server(wanted)
                if known:
                    before[name] = known
        for server in before.values():
            task = asyncio.ensure_future(server.upstream.close(CLOSE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Updates every server's readiness and wakes the requests that wait for a server."""
        changes = await asyncio.gather(*(server.look() for server in self.servers.values()))
        if any(changes) or self._held:  # a request may have begun to wait during the check
            self._wake()

    async def close(self) -> None:
        await asyncio.gather(*(server.upstream.close(0) for server in self.servers.values()))

    def ready(self, names: Collection[str]) -> list[Server]:
        return [server for name, server in self.servers.items() if name in names and server.is_ready]

    async def choose(self, work: Work, tried: Collection[str], until: float) -> Server:
        """The model's best ready server for this work; untried servers come before tried ones.

        Raises: ApiError 503 if none is ready at the time `until` of the loop's clock, or too many wait already.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            if not self.ready(work.model.servers):
                await self._wait_for(work.model, work.tenant, until)
        finally:
            work.queued(clock() - began)
        ready = self.ready(work.model.servers)
        fresh = [server for server in ready if server.name not in tried]
        server = chosen(fresh or ready, work.prefix, work.weight, self._known.of(work.prefix))
        server.turn = next(self._turns)
        return server

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _make_room(self, tenant: str) -> bool:
        """True if a request of this tenant may wait. If all places are taken, the tenant with the most places loses its
        latest place.

        Without this rule, a tenant that fills all places while a model is away would keep every other tenant out until
        the model is back.
        """
        if len(self._held) < self._most_held:
            return True
        counts = Counter(held.tenant for held in self._held)
        most = max(counts, key=lambda name: counts[name], default=tenant)
        if counts[most] <= counts[tenant] + 1:
            return False
        latest = next(held for held in reversed(self._held) if held.tenant == most)
        latest.has_place = False
        self._held.remove(latest)
        self._wake()
        return True

    async def _wait_for(self, model: ModelSettings, tenant: str, until: float) -> None:
        if not self._make_room(tenant):
            raise _away(model, "and the queue for waiting requests is full")
        held = Held(tenant)
        self._held.append(held)
        try:
            while not self.ready(model.servers):
                if not held.has_place:
                    raise _away(model, "and this request lost its place in the queue to another tenant")
                left = until - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait_for(self._changed.wait(), max(left, 0))
                except asyncio.TimeoutError:
                    raise _away(model, f"and none became ready within {self._hold_seconds} s") from None
        finally:
            if held.has_place:
                self._held.remove(held)

    async def infer(
        self, work: Work, inputs: Sequence[Input], parameters: Mapping[str, str | int | bool], seconds: float
    ) -> Outputs:
        """The outputs of one inference on a server of the model; a second server is tried if the first accepted no
        work.

        Raises: UpstreamError, ApiError.
        """

        async def ask(server: Server, left: float) -> Outputs:
            return await server.upstream.infer(work.model.triton_model, inputs, parameters, left, work.trace)

        return await self._tried(work, ask, seconds)

    async def stream(self, work: Work, request: LlmRequest, seconds: float) -> AsyncGenerator[Event, None]:
        """The events of one request from a server of the model; a second server is tried only before the first event.

        Raises: UpstreamError, ApiError.
        """
        async with contextlib.AsyncExitStack() as stack:

            async def begin(server: Server, left: float) -> tuple[Event | None, AsyncGenerator[Event, None]]:
                events = events_of(server.upstream, work.model.triton_model, request, left, work.trace)
                try:
                    first = await anext_or_none(events)
                except BaseException:
                    await events.aclose()
                    raise
                stack.push_async_callback(events.aclose)
                stack.enter_context(server.carrying(work.weight))
                return first, events

            first, events = await self._tried(work, begin, seconds)
            if first is not None:
                yield first
                async for event in events:
                    yield event

    async def _tried(self, work: Work, ask: Callable[[Server, float], Awaitable[T]], seconds: float) -> T:
        """The result of `ask` from one server, or from a second one if the first accepted no work.

        While no server of the model is ready the request waits, because no work is lost and a swap is short.
        """
        clock, tried = asyncio.get_running_loop().time, list[str]()
        began = clock()
        until = began + (min(self._hold_seconds, seconds) if work.may_wait else 0)
        while True:
            server = await self.choose(work, tried, until)
            work.report_server(server.name)
            tried.append(server.name)
            try:
                with server.carrying(work.weight):
                    answer = await ask(server, began + seconds - clock())
                ready = {candidate.name for candidate in self.ready(work.model.servers)}
                self._known.learn(work.prefix, server.name, ready)
                return answer
            except UpstreamError as error:
                if not error.may_go_elsewhere:
                    raise
                if error.is_away or (not error.is_full and not await server.says_ready()):
                    # Until the next check; a stopping server unloads its models before it reports not ready.
                    server.is_ready = False
                others = {candidate.name for candidate in self.ready(work.model.servers)} - set(tried)
                if others and len(tried) == 1:
                    continue
                if error.is_full and server.catches_up and clock() < until:
                    await asyncio.sleep(AGAIN_SECONDS * (0.5 + random.random()))
                elif self.ready(work.model.servers):
                    raise


async def anext_or_none(events: AsyncIterator[T]) -> T | None:
    """The next event; None at the end."""
    async for event in events:
        return event
    return None


def _away(model: ModelSettings, why: str) -> ApiError:
    return ApiError(503, f"no server of `{model.name}` is ready, {why}", code="unavailable", retry_after=5)
