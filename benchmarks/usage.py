"""Requests through gateways of one host that are killed all the time: what usage lost, and the cost of counting.

    python -m benchmarks.usage [REQUESTS] [KILLS]

The Triton is the tests' own, so that the numbers are those of the gateway. The last line is one JSON object.
`throughput` is requests a second of one process, without and with counting, in the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "files"))

from gateway.usage import Counters
from tests.gateway.asking import CHAT, KEY, chat, key_line, settings
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.ports import free_ports

CLIENTS = 16
WHOLE_HOST = 5
"""Each fifth kill ends both processes at once, as when the host goes."""
BODY = json.dumps(chat()).encode()
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
REQUEST = f"{HEAD}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


class Load:
    """Clients that send one request after the other, each over a connection that it keeps."""

    def __init__(self, ports: list[int]) -> None:
        self.ports, self.answered, self.goal = ports, 0, 0

    async def run(self, requests: int) -> float:
        """Seconds until so many more are answered."""
        self.goal, began = self.answered + requests, time.monotonic()
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))
        return time.monotonic() - began

    async def _client(self, number: int) -> None:
        while self.answered < self.goal:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._connection(self.ports[number % len(self.ports)])
            await asyncio.sleep(0.02)

    async def _connection(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while self.answered < self.goal:
                writer.write(REQUEST)
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                self.answered += head.startswith(b"HTTP/1.1 200")
        finally:
            writer.close()


async def started(settings_file: Path, number: int, state: Path) -> asyncio.subprocess.Process:
    """A process of the gateway."""
    files = Path(__file__).parents[1] / "files"
    environment = {**os.environ, "PYTHONPATH": str(files), "STATE_DIRECTORY": str(state)}
    words = [sys.executable, "-m", "gateway", "serve", str(settings_file), str(number)]
    return await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.DEVNULL)


async def measured(requests: int, kills: int, folder: Path) -> dict[str, object]:
    """Answered and counted requests of two processes, while one or both are killed again and again."""
    ports, keys, state = free_ports(3), folder / "keys.json", folder / "state"
    state.mkdir()
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    async with serving(Triton()) as triton:
        known = settings([triton.address], written(folder / "weights"), keys, listen={"ports": ports})
        for name, days in (("with.json", 30), ("without.json", 0)):
            (folder / name).write_text(json.dumps(known | {"usage_days": days}))
        throughput, counted_before = {}, 0
        for name in ("without", "with", "without", "with"):
            process = await started(folder / f"{name}.json", 2, state)
            load = Load([ports[2]])
            await load.run(100)
            rate = 1000 / await load.run(1000)
            throughput[name] = max(throughput.get(name, 0.0), round(rate, 1))
            counted_before += load.answered if name == "with" else 0
            process.terminate()
            await process.wait()
        running, deaths = [await started(folder / "with.json", number, state) for number in range(2)], 2
        load = Load(ports[:2])
        work = asyncio.ensure_future(load.run(requests))
        for kill in range(kills):
            while load.answered < requests * (kill + 1) // (kills + 1):
                await asyncio.sleep(0.001)
            struck = (0, 1) if kill % WHOLE_HOST == 0 else (kill % 2,)
            deaths += len(struck)
            for number in struck:
                running[number].kill()
            for number in struck:
                await running[number].wait()
                running[number] = await started(folder / "with.json", number, state)
        await work
        for process in running:
            process.kill()
            await process.wait()
    counters = Counters(state)
    counters.count_all()
    counted = sum(row["requests"] - row["errors"] for row in counters.rows()) - counted_before
    counters.close()
    return {
        "answered": load.answered,
        "counted": counted,
        "difference": counted - load.answered,
        "kills": deaths,
        "may_differ": deaths * CLIENTS,
        "throughput": throughput,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def main() -> None:
    """Prints the result."""
    requests, kills = (int(word) for word in (sys.argv[1:] + ["100000", "40"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measured(requests, kills, Path(folder)))))


if __name__ == "__main__":
    main()
