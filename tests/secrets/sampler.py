"""Repeatedly reads every process's /proc entries on this machine, and reports the owners of secrets.

    sampler.py < REQUEST   one line; ends when standard input does
      {"forms": {text: name}, "machine": part of its control groups' name, "programs": [words…], "seconds": at most}

Processes of nspawn machines run here, so it sees theirs and the control side's; `side` distinguishes them by process
namespace. It searches a process whose arguments or environment have changed since the last look. The answer has names,
never a text: {"sights": […], "samples", "seconds", "median_ms", "longest_ms", "processes", "cores": {program: [largest
core file it could leave there]}}. Standard library only: it starts at once.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import sys
import time
from typing import Any

PERIOD_SECONDS = 0.02
LARGEST = 1 << 22


class Sampler:
    """Takes all samples of one run."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.forms = {text.encode(): name for text, name in request["forms"].items()}
        self.machine, self.programs = request["machine"].encode(), request["programs"]
        self.mine, self.known = os.readlink("/proc/self/ns/pid"), dict[str, tuple[bytes, bytes]]()
        self.spaces: dict[str, str] = {}
        self.sights: dict[tuple[str, ...], dict[str, str]] = {}
        self.cores: dict[str, set[str]] = {}
        self.starts: list[float] = []
        self.processes = 0

    def sample(self) -> None:
        """Samples every process."""
        self.starts.append(time.monotonic())
        there = [name for name in os.listdir("/proc") if name[0].isdigit()]
        for pid in there:
            before = self.known.get(pid)
            if before is None:  # read first: the namespace of a process that ends meanwhile could not be read later
                self.spaces[pid] = link(f"/proc/{pid}/ns/pid")
            shown = read(f"/proc/{pid}/cmdline"), read(f"/proc/{pid}/environ")
            if shown != before:
                self.processes += before is None
                self.known[pid] = shown
                self._judge(pid, *shown)
        for gone in self.known.keys() - set(there):
            del self.known[gone], self.spaces[gone]

    def _judge(self, pid: str, argv: bytes, environment: bytes) -> None:
        for where, shown in (("argv", argv), ("environment", environment)):
            for text, name in self.forms.items():
                if text in shown:
                    self._saw(pid, where, name, variable(shown, text) if where == "environment" else "")
        for program in self.programs:
            begins = argv.startswith(program.replace(" ", "\0").encode())
            if begins and self.machine in read(f"/proc/{pid}/cgroup"):
                self.cores.setdefault(program, set()).add(largest_core(pid))

    def _saw(self, pid: str, where: str, name: str, variable: str) -> None:
        command = read(f"/proc/{pid}/comm").decode(errors="replace").strip()
        side = "control" if self.spaces[pid] == self.mine else "host"
        sight = {"pid": pid, "command": command, "side": side, "where": where, "variable": variable, "name": name}
        self.sights.setdefault(tuple(sight.values()), sight)

    def figures(self) -> dict[str, Any]:
        """Returns the answer."""
        gaps = [1000 * (after - before) for before, after in zip(self.starts, self.starts[1:], strict=False)] or [0.0]
        return {
            "sights": list(self.sights.values()),
            "samples": len(self.starts),
            "seconds": round(self.starts[-1] - self.starts[0], 1),
            "median_ms": round(statistics.median(gaps), 1),
            "longest_ms": round(max(gaps), 1),
            "processes": self.processes,
            "cores": {program: sorted(limits - {""}) for program, limits in self.cores.items()},
        }


def read(path: str) -> bytes:
    """Returns the file's content; empty if the process has ended."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(opened, LARGEST)
    except OSError:
        return b""
    finally:
        os.close(opened)


def link(path: str) -> str:
    """Returns the link's target; empty if the process has ended."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def variable(environment: bytes, text: bytes) -> str:
    """Returns the variable that holds the text."""
    holding = next((entry for entry in environment.split(b"\0") if text in entry), b"")
    return holding.partition(b"=")[0].decode(errors="replace")


def largest_core(pid: str) -> str:
    """Returns the process's hard limit in /proc's form; empty if it has ended."""
    lines = read(f"/proc/{pid}/limits").decode().splitlines()
    return next((line.split()[5] for line in lines if line.startswith("Max core file size")), "")


def main() -> int:
    """Samples until its reader is gone, or the time is over."""
    # A busy machine would delay the samples, and a secret between two of them would go unseen.
    os.nice(-10)
    request = json.loads(sys.stdin.readline())
    sampler, end = Sampler(request), time.monotonic() + request["seconds"]
    print("looking", flush=True)
    while time.monotonic() < end:
        began = time.monotonic()
        sampler.sample()
        if select.select([sys.stdin], [], [], max(0.001, began + PERIOD_SECONDS - time.monotonic()))[0]:
            break
    print(json.dumps(sampler.figures()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
