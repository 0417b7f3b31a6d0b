"""Kills one host's gateways continuously; reports the usage lost and the cost of counting.

    python -m benchmarks.usage [REQUESTS] [KILLS] [CUTS]

The Triton is the tests' small one, so that the figures are the gateway's. The last line is one JSON object.
`throughput` is requests a second of one process, without and with counting, in the same run; `p99_ms` the time within
which 99 of 100 of them were answered.

CUTS of the power need root. The counters are then on a separate ext4, whose disk is a file. At a cut both gateways are
killed and restarted on the disk's state of that moment, without unwritten data of the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "files"))

from gateway.usage import Counters
from tests.gateway.asking import CHAT, KEY, chat, key_line, settings
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.ports import free_ports

CLIENTS = 16
WHOLE_HOST = 5
"""Every fifth kill ends both processes at once, like a failing host."""
DISK_BYTES = 64 * 2**20
BODY = json.dumps(chat()).encode()
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
REQUEST = f"{HEAD}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


class Load:
    """Clients that send one request after the other, each over a kept connection."""

    def __init__(self, ports: list[int]) -> None:
        self.ports, self.answered, self.goal = ports, 0, 0
        self.seconds = list[float]()

    async def run(self, requests: int) -> float:
        """Returns seconds until this many more requests are answered."""
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
                began = time.monotonic()
                writer.write(REQUEST)
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                self.answered += head.startswith(b"HTTP/1.1 200")
                self.seconds.append(time.monotonic() - began)
        finally:
            writer.close()


class Disk:
    """A file system in a file, for the counters. Its use needs root."""

    def __init__(self, folder: Path) -> None:
        self.place, self._image, self._copy = folder / "disk", folder / "image", folder / "copy"
        self.place.mkdir()
        with self._image.open("wb") as image:
            image.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        self.mount()

    def mount(self) -> None:
        """Mounts the file system and replays its journal, like at a boot."""
        subprocess.run(["mount", "-o", "loop", self._image, self.place], check=True)

    def unmount(self) -> None:
        """Unmounts the file system."""
        subprocess.run(["umount", self.place], check=True)

    def keep(self) -> None:
        """Saves the disk's present state, without unwritten data of the file system."""
        subprocess.run(["cp", "--sparse=always", self._image, self._copy], check=True)

    def go_back(self) -> None:
        """Restores the saved state of the disk."""
        self.unmount()
        self._copy.replace(self._image)
        self.mount()


class Gateways:
    """Two processes of one host."""

    def __init__(self, settings_file: Path, state: Path) -> None:
        self._settings_file, self._state = settings_file, state
        self._running: list[asyncio.subprocess.Process] = []
        self.deaths = 0

    async def start(self) -> None:
        """Starts both processes."""
        self._running = [await started(self._settings_file, number, self._state) for number in range(2)]

    async def kill(self, numbers: Iterable[int]) -> None:
        """Kills these processes."""
        for number in numbers:
            self._running[number].kill()
        for number in numbers:
            await self._running[number].wait()
            self.deaths += 1

    async def revive(self, numbers: Iterable[int]) -> None:
        """Restarts these processes."""
        for number in numbers:
            self._running[number] = await started(self._settings_file, number, self._state)


async def started(settings_file: Path, number: int, state: Path) -> asyncio.subprocess.Process:
    """Returns a process of the gateway."""
    files = Path(__file__).parents[1] / "files"
    environment = {**os.environ, "PYTHONPATH": str(files), "STATE_DIRECTORY": str(state)}
    words = [sys.executable, "-m", "gateway", "serve", str(settings_file), str(number)]
    return await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.DEVNULL)


def counted_in(state: Path) -> int:
    """Returns answered requests in the counters after every line of every log is counted."""
    counters = Counters(state)
    counters.count_all()
    counted = sum(row["requests"] - row["errors"] for row in counters.rows())
    counters.close()
    return int(counted)


async def throughput_of(folder: Path, port: int, state: Path) -> dict[str, dict[str, float]]:
    """Returns requests a second and the 99th percentile of one process, without and with counting; the better of two
    rounds each.
    """
    best, p99 = dict[str, float](), dict[str, float]()
    for name in ("without", "with", "without", "with"):
        process = await started(folder / f"{name}.json", 2, state)
        load = Load([port])
        await load.run(100)
        load.seconds.clear()
        rate = 1000 / await load.run(1000)
        best[name] = max(best.get(name, 0.0), round(rate, 1))
        slow = round(quantiles(load.seconds, n=100)[98] * 1000, 1)
        p99[name] = min(p99.get(name, slow), slow)
        process.terminate()
        await process.wait()
    return {"throughput": best, "p99_ms": p99}


async def struck(gateways: Gateways, kill: int, disk: Disk | None, state: Path) -> int | None:
    """Kills one or both processes and starts them again. Returns the number of requests that the disk lost; None
    without a power cut."""
    numbers = (0, 1) if disk or kill % WHOLE_HOST == 0 else (kill % 2,)
    await gateways.kill(numbers)
    lost = None
    if disk:
        disk.keep()
        lost = counted_in(state)
        disk.go_back()
        lost -= counted_in(state)
    await gateways.revive(numbers)
    return lost


async def measured(requests: int, kills: int, cuts: int, folder: Path, disk: Disk | None) -> dict[str, object]:
    """Returns answered and counted requests of two processes, while one or both are killed repeatedly."""
    ports, keys, state = free_ports(3), folder / "keys.json", (disk.place if disk else folder) / "state"
    state.mkdir()
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    async with serving(Triton()) as triton:
        known = settings([triton.address], written(folder / "weights"), keys, listen={"ports": ports})
        for name, days in (("with.json", 30), ("without.json", 0)):
            (folder / name).write_text(json.dumps(known | {"usage_days": days}))
        throughput = await throughput_of(folder, ports[2], state)
        before = counted_in(state)
        gateways, load, lost, times = Gateways(folder / "with.json", state), Load(ports[:2]), list[int](), kills + cuts
        await gateways.start()
        work = asyncio.ensure_future(load.run(requests))
        for kill in range(times):
            while load.answered < requests * (kill + 1) // (times + 1):
                await asyncio.sleep(0.001)
            is_cut = (kill + 1) * cuts // times > kill * cuts // times
            lost_now = await struck(gateways, kill, disk if is_cut else None, state)
            lost += [] if lost_now is None else [lost_now]
        await work
        await gateways.kill(range(2))
    counted = counted_in(state) - before
    return {
        "answered": load.answered,
        "counted": counted,
        "difference": counted - load.answered,
        "kills": gateways.deaths,
        "may_differ": gateways.deaths * CLIENTS // 2 + sum(lost),
        "cuts": cuts,
        "lost_at_each_cut": lost,
        **throughput,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def main() -> None:
    """Prints the result."""
    requests, kills, cuts = (int(word) for word in (sys.argv[1:] + ["100000", "40", "0"][len(sys.argv) - 1 :])[:3])
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder)) if cuts else None
        try:
            print(json.dumps(asyncio.run(measured(requests, kills, cuts, Path(folder), disk))))
        finally:
            if disk:
                disk.unmount()


if __name__ == "__main__":
    main()
