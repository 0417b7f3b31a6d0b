"""Runs one client process of the gateway's benchmark: begins its streams at a signal, prints results as JSON.

    python -m benchmarks.gateway.load '{"way": "chat", "at": ["8080"], "streams": 32, "seconds": 5, "tokens": 64}'

Prints "ready" once each of its clients has had an answer, begins at a line on standard input, and prints its results.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

from benchmarks.gateway.clients import Client, Http, Seen, closed_loop, grpc_embedding, grpc_stream
from benchmarks.gateway.processes import Cores, Process, begun, cpu_seconds, heard
from gateway.triton import Triton


@dataclass(frozen=True)
class Load:
    """Streams in one way, spread over the ports or addresses `at`; or one embedding after the other."""

    way: str
    """grpc, chat, grpc-embedding or embedding."""
    at: tuple[str, ...]
    streams: int
    seconds: float
    tokens: int = 64
    spread: float = 0
    """Seconds over which streams begin, like those of independent clients."""
    pause: float = 0
    """Seconds that a client waits on average before it asks again."""

    def clients(self) -> list[Client]:
        """Returns a client for each stream."""
        if self.way.startswith("grpc"):
            tritons = [Triton(address) for address in self.at]
            targets = itertools.islice(itertools.cycle(tritons), self.streams)
            return [
                grpc_stream(target, self.tokens) if self.way == "grpc" else grpc_embedding(target) for target in targets
            ]
        gateways = itertools.islice(itertools.cycle([Http(int(port)) for port in self.at]), self.streams)
        return [gateway.stream(self.tokens) if self.way == "chat" else gateway.embedding() for gateway in gateways]

    def split(self, processes: int) -> list[Load]:
        """Returns loads for at most `processes` processes that together have the streams of this one."""
        counts = [len(range(number, self.streams, processes)) for number in range(processes)]
        return [Load(**{**asdict(self), "streams": count}) for count in counts if count]


def seen_of(load: Load, cores: Cores, pid: int = 0) -> tuple[Seen, float]:
    """Returns results of clients on these cores, a process on each, and CPU seconds of the process `pid` meanwhile."""
    total = Seen()
    with contextlib.ExitStack() as stack:
        processes: list[Process] = []
        for number, part in enumerate(load.split(max(len(cores), 1))):
            command = [sys.executable, "-m", "benchmarks.gateway.load", json.dumps(asdict(part))]
            processes.append(stack.enter_context(begun(command, cores[number : number + 1], says=True)))
        for process in processes:
            assert heard(process) == "ready"
        before = cpu_seconds(pid) if pid else 0.0
        for process in processes:
            assert process.stdin
            print("go", file=process.stdin, flush=True)
        for process in processes:
            total.add(json.loads(heard(process)))
        spent = cpu_seconds(pid) - before if pid else 0.0
    return total, spent


async def run(load: Load) -> Seen:
    """Returns the results of all clients of this process."""

    async def begins() -> None:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

    return await closed_loop(load.clients(), load.seconds, begins, load.spread, load.pause)


def main(words: Sequence[str]) -> None:
    """Prints the results."""
    settings = json.loads(words[0])
    # As in the gateway: otherwise garbage collection of all loaded modules would count as the server's time.
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(run(Load(**{**settings, "at": tuple(settings["at"])})))
    print(json.dumps(asdict(seen)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
