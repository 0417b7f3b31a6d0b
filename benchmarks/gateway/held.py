"""Holds streams of the gateway's benchmark until they end, and prints each one's end as JSON.

    python -m benchmarks.gateway.held 8080 256 6000      port, streams, tokens of each

OpenAI's own library reads one of the streams, if it is installed. Prints "ready" once each has had a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.gateway.clients import CHAT, KEY, request

DONE, ERROR, BROKEN, REFUSED = "done", "error event", "broken connection", "refused"
"""Ends of a stream: complete, with an error event, only by a closed connection, or before its beginning."""
LIMIT = 2**20


@dataclass
class Held:
    """A stream: its end, the error's code, the number of tokens that came in order, and the longest time between
    two."""

    end: str = BROKEN
    code: str = ""
    tokens: int = 0
    in_order: bool = True
    gap_seconds: float = 0.0
    ended: float = 0.0
    last: float = 0.0

    def token(self, text: str) -> None:
        """Records a token by the server's number."""
        now = time.monotonic()
        self.in_order = self.in_order and text == f" w{self.tokens}"
        self.gap_seconds = max(self.gap_seconds, now - self.last) if self.tokens else 0.0
        self.tokens, self.last = self.tokens + 1, now


async def held(port: int, tokens: int, began: asyncio.Barrier) -> Held:
    """Returns a stream that was read from the connection until it ended."""
    stream, is_counted = Held(), False
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
        writer.write(request("/v1/chat/completions", {**CHAT, "max_tokens": tokens}))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            stream.end = REFUSED
        while stream.end == BROKEN and (line := await reader.readline()):
            if line == b"data: [DONE]\n":
                stream.end = DONE
            elif line.startswith(b"data: "):
                _event(stream, json.loads(line[6:]))
            if stream.tokens and not is_counted:
                is_counted = True
                await began.wait()
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        stream.ended = time.time()
        if not is_counted:
            await began.wait()
    return stream


def _event(stream: Held, event: dict[str, Any]) -> None:
    if "error" in event:
        stream.end, stream.code = ERROR, str(event["error"]["code"])
    for choice in event.get("choices", ()):
        if text := choice["delta"].get("content"):
            stream.token(text)


async def by_openai(port: int, tokens: int, began: asyncio.Barrier) -> tuple[Held, dict[str, Any]]:
    """Returns the same stream as OpenAI's library reports it, and the library's exception."""
    import openai

    stream, report, is_counted = Held(), dict[str, Any](version=openai.__version__, raised=None), False
    client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0, timeout=3600)
    try:
        async for chunk in await client.chat.completions.create(**CHAT, max_tokens=tokens):
            if text := chunk.choices[0].delta.content:
                stream.token(text)
            if not is_counted and stream.tokens:
                is_counted = True
                await began.wait()
        stream.end = DONE
    except Exception as error:
        report["raised"] = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}: {error}"
        stream.code = str(getattr(error, "code", None) or "")
        stream.end = ERROR if isinstance(error, openai.APIError) and stream.code else BROKEN
    finally:
        stream.ended = time.time()
        if not is_counted:
            await began.wait()
    with contextlib.suppress(Exception):
        await client.close()
    return stream, report


async def all_held(port: int, streams: int, tokens: int) -> dict[str, Any]:
    """Returns the ends of all streams."""
    has_openai = importlib.util.find_spec("openai") is not None
    began = asyncio.Barrier(streams + 1)
    tasks = [asyncio.ensure_future(held(port, tokens, began)) for _ in range(streams - has_openai)]
    theirs = asyncio.ensure_future(by_openai(port, tokens, began)) if has_openai else None
    await began.wait()
    print("ready", flush=True)
    every = list(await asyncio.gather(*tasks))
    library = None
    if theirs:
        stream, library = await theirs
        every.append(stream)
        library["end"] = stream.end
    return {
        "streams": len(every),
        "ends": dict(Counter(stream.end for stream in every)),
        "codes": dict(Counter(stream.code for stream in every if stream.code)),
        "tokens": {"least": min(stream.tokens for stream in every), "most": max(stream.tokens for stream in every)},
        "out_of_order": sum(not stream.in_order for stream in every),
        "longest_gap_ms": round(1000 * max(stream.gap_seconds for stream in every), 1),
        "first_end": min(stream.ended for stream in every),
        "last_end": max(stream.ended for stream in every),
        "openai": library,
    }


def main(words: Sequence[str]) -> None:
    """Prints the ends of the streams."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(all_held(*(int(word) for word in words)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
