"""The control groups a machine runs in: what names every one of its processes, also after its supervisor was killed.

A machine whose supervisor is gone is still ended safely this way, because no process of anyone else is ever in them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

END_SECONDS = 10


def roots() -> list[Path]:
    """Mount points of the hierarchies systemd inside looks at: version 2 and, beside it, version 1's name=systemd."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [
        Path(words[1])
        for words in mounts
        if words[2] == "cgroup2" or (words[2] == "cgroup" and "name=systemd" in words[3].split(","))
    ]


def of_machine(number: int, name: str) -> list[Path]:
    """The machine's control group in each hierarchy, whether or not it exists."""
    return [root / f"rehearsal{number}-{name}" for root in roots()]


def make(number: int, name: str) -> list[Path]:
    """The machine's control groups exist; one left from an earlier start is taken again."""
    groups = of_machine(number, name)
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def end_all(number: int, name: str) -> None:
    """No process of the machine is left, killed without warning as by a power cut."""
    end = time.monotonic() + END_SECONDS
    while (pids := _pids(number, name)) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def remove(number: int, name: str) -> None:
    """The machine's control groups are gone, as far as they are empty."""
    for group in of_machine(number, name):
        for path, _, _ in os.walk(group, topdown=False):
            # Something inside may still be ending; what is left behind is taken again by the next start.
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _pids(number: int, name: str) -> set[int]:
    found: set[int] = set()
    for group in of_machine(number, name):
        for path, _, _ in os.walk(group):
            with contextlib.suppress(OSError):
                found.update(int(word) for word in (Path(path) / "cgroup.procs").read_text().split())
    return found
