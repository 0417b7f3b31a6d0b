"""A client process of the gateway's benchmark that holds streams until they end, and says how each ended, as JSON.

    python -m benchmarks.gateway.held 8080 256 6000      port, streams, tokens of each

One of the streams is read by OpenAI's own library, where it is installed. Says "ready" once each has had a token.
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
"""How a stream ends: whole, with an event that says why not, by its connection alone, or before it began."""
LIMIT = 2**20


@dataclass
class Held:
    """A stream: how it ended, the error's code, tokens that came in their order, the longest time between two."""

    end: str = BROKEN
    code: str = ""
    tokens: int = 0
    in_order: bool = True
    gap_seconds: float = 0.0
    ended: float = 0.0
    last: float = 0.0

    def token(self, text: str) -> None:
        """A token came; the server numbers them."""
        now = time.monotonic()
        self.in_order = self.in_order and text == f" w{self.tokens}"
        self.gap_seconds = max(self.gap_seconds, now - self.last) if self.tokens else 0.0
        self.tokens, self.last = self.tokens + 1, now


async def held(port: int, tokens: int, began: asyncio.Barrier) -> Held:
    """A stream that was read until it ended, as it came over the connection."""
    found, is_counted = Held(), False
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
        writer.write(request("/v1/chat/completions", {**CHAT, "max_tokens": tokens}))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            found.end = REFUSED
        while found.end == BROKEN and (line := await reader.readline()):
            if line == b"data: [DONE]\n":
                found.end = DONE
            elif line.startswith(b"data: "):
                _event(found, json.loads(line[6:]))
            if found.tokens and not is_counted:
                is_counted = True
                await began.wait()
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        found.ended = time.time()
        if not is_counted:
            await began.wait()
    return found


def _event(found: Held, told: dict[str, Any]) -> None:
    if "error" in told:
        found.end, found.code = ERROR, str(told["error"]["code"])
    for choice in told.get("choices", ()):
        if text := choice["delta"].get("content"):
            found.token(text)


async def by_openai(port: int, tokens: int, began: asyncio.Barrier) -> tuple[Held, dict[str, Any]]:
    """The same as OpenAI's library tells it; and what it raised."""
    import openai

    found, told, is_counted = Held(), dict[str, Any](version=openai.__version__, raised=None), False
    client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0, timeout=3600)
    try:
        async for chunk in await client.chat.completions.create(**CHAT, max_tokens=tokens):
            if text := chunk.choices[0].delta.content:
                found.token(text)
            if not is_counted and found.tokens:
                is_counted = True
                await began.wait()
        found.end = DONE
    except Exception as error:
        told["raised"] = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}: {error}"
        found.code = str(getattr(error, "code", None) or "")
        found.end = ERROR if isinstance(error, openai.APIError) and found.code else BROKEN
    finally:
        found.ended = time.time()
        if not is_counted:
            await began.wait()
    with contextlib.suppress(Exception):
        await client.close()
    return found, told


async def all_held(port: int, streams: int, tokens: int) -> dict[str, Any]:
    """How all of them ended."""
    has_openai = importlib.util.find_spec("openai") is not None
    began = asyncio.Barrier(streams + 1)
    tasks = [asyncio.ensure_future(held(port, tokens, began)) for _ in range(streams - has_openai)]
    theirs = asyncio.ensure_future(by_openai(port, tokens, began)) if has_openai else None
    await began.wait()
    print("ready", flush=True)
    every = list(await asyncio.gather(*tasks))
    library = None
    if theirs:
        one, library = await theirs
        every.append(one)
        library["end"] = one.end
    return {
        "streams": len(every),
        "ends": dict(Counter(one.end for one in every)),
        "codes": dict(Counter(one.code for one in every if one.code)),
        "tokens": {"least": min(one.tokens for one in every), "most": max(one.tokens for one in every)},
        "out_of_order": sum(not one.in_order for one in every),
        "longest_gap_ms": round(1000 * max(one.gap_seconds for one in every), 1),
        "first_end": min(one.ended for one in every),
        "last_end": max(one.ended for one in every),
        "openai": library,
    }


def main(words: Sequence[str]) -> None:
    """How they ended is printed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(all_held(*(int(word) for word in words)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
