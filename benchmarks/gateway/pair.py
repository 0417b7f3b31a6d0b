"""Compares gateways of two checkouts: one client asks both and gRPC itself in turn, in random order.

    git worktree add ../before main
    python -m benchmarks.gateway.pair ../before --seconds 15 --tokens 1

Other load on the machine disturbs all three equally, so a difference of a few percent shows on a busy machine.
`limit` is the same request over gRPC without a gateway; `added_ms` is the rest. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.gateway import processes
from benchmarks.gateway.clients import Http, Seen, grpc_stream
from gateway.triton import Triton

WARM = 50
WAYS = ("before", "after", "limit")


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="gateways-") as made, contextlib.ExitStack() as stack:
        (server,) = stack.enter_context(processes.servers(1))
        ports, pids = processes.free_ports(2), list[int]()
        for root, port in zip((options.before.resolve(), processes.ROOT), ports, strict=True):
            settings = processes.settings_file(Path(made), [server], [port])
            with of_checkout(root):
                pids.append(stack.enter_context(processes.start_gateway(settings, 0)).pid)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(in_turn(options, ports, pids, server))
    load = round(os.getloadavg()[0], 1)
    result = {"benchmark": "gateway.pair", "tokens": options.tokens, "load": load, **figures}
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gateway.pair")
    made.add_argument("before", type=Path, help="another checkout of this repository")
    made.add_argument("--seconds", type=float, default=15.0)
    made.add_argument("--tokens", type=int, default=1, help="of an answer")
    made.add_argument("--pause-ms", type=float, default=0.0, help="between two requests, on average")
    return made


@contextlib.contextmanager
def of_checkout(root: Path) -> Iterator[None]:
    """Makes processes that start during the block use this checkout."""
    here, processes.ROOT = processes.ROOT, root
    try:
        yield
    finally:
        processes.ROOT = here


async def in_turn(options: argparse.Namespace, ports: list[int], pids: list[int], server: str) -> dict[str, Any]:
    """Returns milliseconds to the first token of each way, and CPU milliseconds of each gateway per answer."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [Http(port).stream(options.tokens) for port in ports] + [grpc_stream(Triton(server), options.tokens)]
        asks = [await stack.enter_async_context(client) for client in clients]
        for ask in asks:
            for _ in range(WARM):
                await ask(Seen())
        seen, before = [Seen() for _ in asks], [processes.cpu_seconds(pid) for pid in pids]
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            for number in random.sample(range(len(asks)), len(asks)):
                await asks[number](seen[number])
                if options.pause_ms:
                    await asyncio.sleep(random.random() * options.pause_ms / 500)
        spent = [processes.cpu_seconds(pid) - used for pid, used in zip(pids, before, strict=True)]
    cuts = {way: statistics.quantiles(got.seconds, n=100) for way, got in zip(WAYS, seen, strict=True)}
    shown = {"p25": 24, "p50": 49, "p75": 74}
    milliseconds = {way: {name: round(1000 * cut[at], 3) for name, at in shown.items()} for way, cut in cuts.items()}
    added = {way: round(1000 * (cuts[way][49] - cuts["limit"][49]), 3) for way in WAYS[:2]}
    cpu = {way: round(1000 * used / len(seen[0].seconds), 3) for way, used in zip(WAYS, spent, strict=False)}
    return {"answers": len(seen[0].seconds), "first_ms": milliseconds, "added_ms": added, "cpu_ms_an_answer": cpu}


if __name__ == "__main__":
    main()
