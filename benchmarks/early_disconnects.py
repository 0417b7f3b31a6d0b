"""Measures how long the LLM's slot works for clients that leave after their first token.

    python -m benchmarks.early_disconnects                  a thousand, one after the other
    python -m benchmarks.early_disconnects --clients 50

Real Triton, the LLM's slot over the rehearsal's stand-in of TensorRT-LLM, a gateway on a socket of its own. Each client
hangs up after one token of 4,000. The time counts from there until the slot's own count of running requests is zero.
The limit is the duration of an answer that a client reads to its end. Prints one JSON line last; exits 1 if the
count was not zero within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from tests.gateway import real
from tests.gateway.asking import CHAT, chat

CONTEXT_TOKENS, ANSWER_TOKENS = 4096, 4000
WITHIN_SECONDS = 1.0
PATIENCE_SECONDS = 120.0
MOST_BYTES = 1 << 26
"""Upper bound of the bytes of a complete answer."""
TOKEN = b'"content":"'


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if no request ran a second after each client had left."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.early_disconnects", description=(__doc__ or "").split("\n")[0]
    )
    made.add_argument("--clients", type=int, default=1000)
    options = made.parse_args(words)
    real.CONTEXT_TOKENS = CONTEXT_TOKENS
    with (
        tempfile.TemporaryDirectory(prefix="early-disconnects-") as folder,
        real.standing(Path(folder)) as scene,
        contextlib.redirect_stdout(sys.stderr),  # keeps the gateway's audit lines out of the result
    ):
        result = asyncio.run(measured(scene, Path(folder), options.clients))
    print(json.dumps(result), flush=True)
    return 1 if result["beyond"] else 0


async def measured(scene: real.Scene, folder: Path, clients: int) -> dict[str, Any]:
    """Returns milliseconds until no request ran, for a number of clients; and the milliseconds of a complete answer."""
    async with start_gateway(scene, folder) as port:
        begins = time.monotonic()
        await request_once(port, stays=True)
        whole = time.monotonic() - begins
        times = [await left(scene, port) for _ in range(clients)]
    milliseconds = sorted(1000 * seconds for seconds in times)
    return {
        "benchmark": "early-disconnects",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "clients": clients,
        "tokens_asked_for": ANSWER_TOKENS,
        "until_nothing_runs_ms": {
            "p50": round(float(np.percentile(milliseconds, 50)), 1),
            "p99": round(float(np.percentile(milliseconds, 99)), 1),
            "most": round(milliseconds[-1], 1),
        },
        "beyond": sum(seconds > WITHIN_SECONDS for seconds in times),
        "stayed_to_the_end_ms": round(1000 * whole),
    }


async def left(scene: real.Scene, port: int) -> float:
    """Returns seconds from a client's disconnect until the slot reports no request, after it had reported one."""
    await request_once(port, stays=False, before=lambda: asyncio.to_thread(seen, scene, 1))
    begins = time.monotonic()
    await asyncio.to_thread(seen, scene, 0)
    return time.monotonic() - begins


def seen(scene: real.Scene, count: int) -> None:
    """Waits until the slot's count of running requests is `count`. Raises `TimeoutError` after a time limit."""
    end = time.monotonic() + PATIENCE_SECONDS
    while real.running_requests(scene) != count:
        if time.monotonic() > end:
            raise TimeoutError(f"the slot did not say in {PATIENCE_SECONDS:g} s that {count} requests run")


async def request_once(port: int, stays: bool, before: Any = None) -> None:
    """Sends a chat and reads it to its end, or to its first token and `before`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MOST_BYTES)
    body = json.dumps(chat("one two", stream=True, max_tokens=ANSWER_TOKENS)).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await reader.readuntil(b"data: [DONE]" if stays else TOKEN)
    assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
    if before:
        await before()
    writer.transport.abort() if not stays else writer.close()


@contextlib.asynccontextmanager
async def start_gateway(scene: real.Scene, folder: Path) -> AsyncIterator[int]:
    """Runs a gateway; yields its port."""
    async with real.running_gateway(scene, folder) as front:
        server = uvicorn.Server(uvicorn.Config(front.app, port=0, log_level="error", lifespan="off", access_log=False))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        await serving


if __name__ == "__main__":
    sys.exit(main())
