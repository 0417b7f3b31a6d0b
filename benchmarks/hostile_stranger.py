"""Sends bad bodies as the hostile benchmark's bad tenant until stopped, and prints the answers.

    python -m benchmarks.hostile_stranger '{"load": "deep-json", "port": 8080, "connections": 4}'

Prints "ready", begins at a line on standard input, ends at the next one, and prints the answers as JSON: by body, the
count of each status. `closed` is a connection that ended without an answer; `none` a request without one at the end.
`body`: the place of the only body to send.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import uvloop

from benchmarks.gateway.clients import head
from benchmarks.hostile_bodies import KIB, LOADS, Body

STRANGER_KEY = "sk-hostile"
SLOW = ("slow-bodies", "slow-smaller-bodies")
SLOW_CONNECTIONS = 192
"""Connections with a dripping body; at 16 MiB each they hold 3 GiB together."""
DRIPPING = 64
"""Bytes at a slow body's end that come one at a time."""
DRIP_SECONDS = 0.5
PAUSE_SECONDS = 0.2
"""Seconds between the answer to a slow body and the next body, so that the load stays slow."""
Answers = dict[str, Counter[str]]


async def stranger(port: int, bodies: Sequence[Body], number: int, answers: Answers, is_slow: bool) -> None:
    """Sends one body after the other forever, each over a new connection; `number` is the place of the first body."""
    for body in itertools.islice(itertools.cycle(bodies), number % len(bodies), None):
        status = "none"
        try:
            status = await answered(port, body, is_slow)
        finally:
            answers[body.name][status] += 1
        await asyncio.sleep(PAUSE_SECONDS if is_slow or status == "closed" else 0)


async def answered(port: int, body: Body, is_slow: bool) -> str:
    """Returns the status of the answer, read to its end."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return "closed"
    sending = asyncio.ensure_future(sent(writer, body, is_slow))
    try:
        line = await reader.readline()
        while await reader.read(256 * KIB):
            pass
        return line.split()[1].decode() if line else "closed"
    except OSError:
        return "closed"
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()


async def sent(writer: asyncio.StreamWriter, body: Body, is_slow: bool) -> None:
    """Sends the request; the end of a slow request is sent a byte at a time."""
    writer.write(head(body.path, len(body.content), STRANGER_KEY, "Connection: close\r\n"))
    content = memoryview(body.content)
    quick = len(content) - (DRIPPING if is_slow else 0)
    for start in range(0, quick, 256 * KIB):
        writer.write(content[start : min(start + 256 * KIB, quick)])
        await writer.drain()
    for place in range(quick, len(content)):
        await asyncio.sleep(DRIP_SECONDS)
        writer.write(content[place : place + 1])


async def run(load: str, port: int, connections: int, body: int = -1) -> Answers:
    """Returns all answers up to the stop."""
    bodies = list(LOADS[load]())
    chosen = bodies if body < 0 else [bodies[body]]
    answers: Answers = defaultdict(Counter)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    count = SLOW_CONNECTIONS if load in SLOW else connections
    tasks = [asyncio.ensure_future(stranger(port, chosen, number, answers, load in SLOW)) for number in range(count)]
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    return answers


def main(words: Sequence[str]) -> None:
    """Prints the answers."""
    parameters: dict[str, Any] = json.loads(words[0])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(**parameters))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
