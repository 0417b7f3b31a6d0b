"""Clients of one server that answers at once: over gRPC itself, and over OpenAI's API on kept connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "files"))

from gateway.tensors import Input, boolean, int32s, strings
from gateway.triton import Triton

KEY = "sk-benchmark"
"""Key for LiteLLM; with these settings the gateway needs no key."""
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "the cat sat on the mat"}], "stream": True}
EMBED = {"model": "nomic", "input": "the cat sat on the mat", "encoding_format": "base64"}
WARM = 16
"""Requests that a client process makes before the counted requests."""
TOKEN = b'"content":" w'
"""Beginning of the text of a token's event."""


@dataclass
class Seen:
    """A load's results: seconds to each first token or answer, and the number of tokens."""

    seconds: list[float] = field(default_factory=list)
    events: int = 0
    requests: int = 0

    def milliseconds(self) -> dict[str, float]:
        """Returns percentiles of the seconds, in milliseconds; -1 if there are too few."""
        centiles = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [-0.001] * 100
        return {"p50": round(1000 * centiles[49], 3), "p99": round(1000 * centiles[98], 3)}

    def add(self, record: dict[str, Any]) -> None:
        """Adds the results of another process's clients."""
        self.seconds += record["seconds"]
        self.events += record["events"]
        self.requests += record["requests"]


Ask = Callable[[Seen], Awaitable[None]]
Client = contextlib.AbstractAsyncContextManager[Ask]


async def closed_loop(
    clients: Sequence[Client],
    seconds: float,
    begins: Callable[[], Awaitable[None]],
    spread: float = 0,
    pause: float = 0,
) -> Seen:
    """Returns results of clients that each send the next request after an answer, for some seconds after `begins`
    has ended.

    The time begins once the clients had `WARM` answers together, at least one each, which do not count. With `spread`
    the clients begin at random within that many seconds; `pause` is the mean of a random wait before each request.
    """
    warm_each = -(-WARM // len(clients))
    seen, warm, ended = Seen(), asyncio.Barrier(len(clients) + 1), asyncio.Event()
    go = asyncio.Event()

    async def run(client: Client) -> None:
        async with client as ask:
            for _ in range(warm_each):
                await ask(Seen())
            await warm.wait()
            await go.wait()
            await asyncio.sleep(random.random() * spread)
            while not ended.is_set():
                await ask(seen)
                seen.requests += 1
                if pause:
                    await asyncio.sleep(random.random() * 2 * pause)

    tasks = [asyncio.ensure_future(run(client)) for client in clients]
    await warm.wait()
    await begins()
    go.set()
    asyncio.get_running_loop().call_later(seconds, ended.set)
    await asyncio.gather(*tasks)
    return seen


@contextlib.asynccontextmanager
async def grpc_stream(triton: Triton, tokens: int) -> AsyncIterator[Ask]:
    """Yields the limit: the gateway's request, sent directly over one channel for all clients."""
    flags = [boolean(name, True) for name in ("return_counts", "return_finish_reason", "streaming")]
    inputs: list[Input] = [int32s("prompt_token_ids", [1] * 40), int32s("sampling_param_max_tokens", [tokens]), *flags]

    async def ask(seen: Seen) -> None:
        began, first = time.perf_counter(), True
        async for _ in triton.stream("llama", inputs, 600):
            if first:
                seen.seconds.append(time.perf_counter() - began)
                first = False
            seen.events += 1
        seen.events -= 1  # the last event has only the counts

    yield ask


@contextlib.asynccontextmanager
async def grpc_embedding(triton: Triton) -> AsyncIterator[Ask]:
    """Yields the limit of an embedding."""
    inputs = [strings("texts", [str(EMBED["input"])], (1, 1))]

    async def ask(seen: Seen) -> None:
        began = time.perf_counter()
        await triton.infer("nomic", inputs, {"truncate": False}, 60)
        seen.seconds.append(time.perf_counter() - began)

    yield ask


class Connection:
    """A kept connection that repeats one request and reconnects if the server has closed it."""

    def __init__(self, port: int, raw: bytes) -> None:
        self._port, self._raw = port, raw
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self) -> asyncio.StreamReader:
        """Sends the request; returns the reader of its answer."""
        if self._ends is None or self._ends[0].at_eof():
            self.close()
            self._ends = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        self._ends[1].write(self._raw)
        return self._ends[0]

    def close(self) -> None:
        """Closes the connection."""
        if self._ends:
            self._ends[1].close()


def request(path: str, body: dict[str, Any]) -> bytes:
    """Returns a request's bytes."""
    content = json.dumps(body).encode()
    return head(path, len(content)) + content


def head(path: str, length: int, key: str = KEY, more: str = "") -> bytes:
    """Returns the line and headers of a request with a body of this many bytes; `more` are whole lines."""
    line = f"POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n"
    return f"{line}{more}Content-Length: {length}\r\n\r\n".encode()


class Http:
    """An OpenAI server on loopback, used over kept connections."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextlib.asynccontextmanager
    async def _connection(self, path: str, body: dict[str, Any]) -> AsyncIterator[Connection]:
        connection = Connection(self._port, request(path, body))
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.asynccontextmanager
    async def stream(self, tokens: int) -> AsyncIterator[Ask]:
        """Yields a client of a streaming chat; an event is a `data:` line with a token's text."""
        async with self._connection("/v1/chat/completions", {**CHAT, "max_tokens": tokens}) as connection:

            async def ask(seen: Seen) -> None:
                began, first = time.perf_counter(), True
                reader = await connection.send()
                status = await reader.readuntil(b"\r\n\r\n")
                assert status.startswith(b"HTTP/1.1 200"), status
                rest = b""
                while not rest.endswith(b"0\r\n\r\n"):
                    part = await reader.read(2**16)
                    assert part, "the stream broke off"
                    whole = (rest + part).replace(b'": "', b'":"')
                    came = whole.count(TOKEN)
                    if first and came:
                        seen.seconds.append(time.perf_counter() - began)
                        first = False
                    seen.events += came
                    rest = whole[1 - len(TOKEN) :]

            yield ask

    @contextlib.asynccontextmanager
    async def embedding(self) -> AsyncIterator[Ask]:
        """Yields a client that requests the vector of one text."""
        async with self._connection("/v1/embeddings", EMBED) as connection:

            async def ask(seen: Seen) -> None:
                began = time.perf_counter()
                reader = await connection.send()
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                seen.seconds.append(time.perf_counter() - began)

            yield ask
