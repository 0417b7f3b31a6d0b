"""Streams chats continuously as the hostile benchmark's good tenant, and prints the gaps between events.

    python -m benchmarks.hostile_tenant '{"port": 8080, "direct": "127.0.0.1:8001", "streams": 8, "tokens": 20000}'

Beside the streams it asks for a short chat and for `/health` several times a second. One more stream comes from the
server directly, over gRPC: its gaps are those of machine, server and this process, without the gateway.

Prints "ready" once every stream has had an event, and counts from a line on standard input. At the next line, which has
a time limit in seconds, it waits until each stream and each question has continued, and prints the results as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvloop

from benchmarks.gateway.clients import CHAT, TOKEN, request
from gateway.tensors import Input, boolean, int32s
from gateway.triton import Triton

AGAIN_SECONDS = 0.2
"""Seconds between two short chats, and before a broken stream is restarted."""
CHATS = "/v1/chat/completions"
HEALTH = b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n"


class Pace:
    """Seconds that one client waited for each event: since `last`, the previous event or the request."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.last: float | None = None
        self.came = 0.0

    def begins(self) -> None:
        """Forgets all events so far."""
        self.seconds = []

    def event(self) -> None:
        """Records an event."""
        now = time.monotonic()
        if self.last is not None:
            self.seconds.append(now - self.last)
        self.last = self.came = now

    def asks(self) -> None:
        """Starts the wait for an answer."""
        self.last = time.monotonic()

    def rests(self) -> None:
        """Ends the wait: a stream or an answer has ended."""
        self.last = None

    def has_gone_on(self, since: float) -> bool:
        """Returns True if an event came since this time."""
        return self.came > since

    def all_seconds(self, now: float) -> list[float]:
        """Returns the seconds between events, and the seconds since the last event."""
        return [*self.seconds, *([now - self.last] if self.last is not None else [])]


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Returns median, p99 and maximum in milliseconds; -1 for too few values."""
    if len(seconds) < 2:
        return {"p50": -1, "p99": -1, "longest": round(1000 * max(seconds, default=-0.001), 1)}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {
        name: round(1000 * value, 1)
        for name, value in zip(("p50", "p99", "longest"), (cuts[49], cuts[98], max(seconds)), strict=True)
    }


class Tenant:
    """The clients of one tenant, and the clients' results."""

    def __init__(self, port: int, direct: str, streams: int, tokens: int) -> None:
        self._port, self._triton, self._tokens = port, Triton(direct), tokens
        self.paces = [Pace() for _ in range(streams)]
        self.direct, self.chats, self.health = Pace(), Pace(), Pace()
        self.ends: Counter[str] = Counter()
        """Ends of streams during the count."""
        self.answers: Counter[str] = Counter()
        """The statuses of short chats."""

    def clients(self) -> list[Callable[[], Awaitable[None]]]:
        """Returns the clients that run concurrently and repeatedly."""
        streams = [lambda pace=pace: self._stream(pace) for pace in self.paces]
        return [*streams, self._direct, self._chat, self._health]

    async def _stream(self, pace: Pace) -> None:
        """Reads a stream to its end."""
        try:
            pace.rests()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
            with contextlib.closing(writer):
                writer.write(request(CHATS, {**CHAT, "max_tokens": self._tokens}))
                status = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
                is_whole = False
                while not is_whole and (part := await reader.read(2**16)):
                    if TOKEN in part:
                        pace.event()
                    is_whole = b"data: [DONE]" in part
            self.ends["whole" if is_whole else "broken" if status == "200" else status] += 1
        except (OSError, asyncio.IncompleteReadError):
            self.ends["broken"] += 1

    async def _direct(self) -> None:
        """Reads a stream of the server itself."""
        self.direct.rests()
        flags = [boolean(name, True) for name in ("return_counts", "return_finish_reason", "streaming")]
        inputs: list[Input] = [int32s("prompt_token_ids", [1]), int32s("sampling_param_max_tokens", [self._tokens])]
        async for _ in self._triton.stream("llama", [*inputs, *flags], 3600):
            self.direct.event()

    async def _chat(self) -> None:
        """Sends a chat of one token over a new connection."""
        self.chats.asks()
        body = {**CHAT, "stream": False, "max_tokens": 1}
        self.answers[await self._status(request(CHATS, body))] += 1
        self.chats.event()
        self.chats.rests()

    async def _health(self) -> None:
        """Asks `/health`, like balancers do."""
        self.health.asks()
        await self._status(HEALTH)
        self.health.event()
        self.health.rests()

    async def _status(self, raw: bytes) -> str:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            with contextlib.closing(writer):
                writer.write(raw)
                return (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        except (OSError, asyncio.IncompleteReadError):
            return "closed"

    async def run(self) -> dict[str, Any]:
        """Returns the record from the first line on standard input to the second, and on until all streams have
        continued."""
        tasks = [asyncio.ensure_future(for_ever(client)) for client in self.clients()]
        while not all(pace.last for pace in (*self.paces, self.direct)):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        every = [*self.paces, self.direct, self.chats, self.health]
        for pace in every:
            pace.begins()
        self.ends.clear()
        self.answers.clear()
        most = float(await asyncio.to_thread(sys.stdin.readline))
        since = time.monotonic()
        while not (has_gone_on := all(pace.has_gone_on(since) for pace in every)) and time.monotonic() < since + most:
            await asyncio.sleep(0.02)
        now, ends, answers = time.monotonic(), dict(self.ends), dict(self.answers)
        for task in tasks:
            task.cancel()
        gaps = [second for pace in self.paces for second in pace.all_seconds(now)]
        return {
            "gap_ms": milliseconds(gaps),
            "direct_gap_ms": milliseconds(self.direct.all_seconds(now)),
            "short_chat_ms": milliseconds(self.chats.all_seconds(now)),
            "health_ms": milliseconds(self.health.all_seconds(now)),
            "events": len(gaps),
            "streams_ended": ends,
            "short_chats": answers,
            "went_on": has_gone_on,
        }


async def for_ever(client: Callable[[], Awaitable[None]]) -> None:
    """Runs the client repeatedly."""
    while True:
        await client()
        await asyncio.sleep(AGAIN_SECONDS)


def main(words: Sequence[str]) -> None:
    """Prints the record of the streams."""
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def run() -> dict[str, Any]:
            return await Tenant(**json.loads(words[0])).run()

        print(json.dumps(runner.run(run())), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
