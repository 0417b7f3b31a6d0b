"""The control groups of a machine, which identify all its processes even after its supervisor was killed.

A machine without a supervisor can be ended safely by its groups, because they contain no other processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from rehearsal.places import RehearsalRefused

END_SECONDS = 10


def roots() -> list[Path]:
    """Returns mount points of the hierarchies that the inner systemd uses: version 2 and version 1's name=systemd."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [
        Path(words[1])
        for words in mounts
        if words[2] == "cgroup2" or (words[2] == "cgroup" and "name=systemd" in words[3].split(","))
    ]


def of_machine(number: int, name: str) -> list[Path]:
    """Returns the machine's control group in each hierarchy, whether or not it exists."""
    return [root / f"rehearsal{number}-{name}" for root in roots()]


def make(number: int, name: str) -> list[Path]:
    """Creates the machine's control groups; reuses those of an earlier start."""
    groups = of_machine(number, name)
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def end_all(number: int, name: str) -> None:
    """Kills every process of the machine without warning, like a power cut.

    Freezes all processes first, because a build that notices its container's death would still write its error.
    """
    end, standing = time.monotonic() + END_SECONDS, set[int]()
    while (moving := _pids(number, name) - standing) and time.monotonic() < end:
        _send(signal.SIGSTOP, moving)
        standing |= moving
    while (pids := _pids(number, name)) and time.monotonic() < end:
        _send(signal.SIGKILL, pids)
        time.sleep(0.02)


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def remove(number: int, name: str) -> None:
    """Removes the machine's empty control groups."""
    for group in of_machine(number, name):
        for path, _, _ in os.walk(group, topdown=False):
            # A process inside may still be ending; the next start reuses the group.
            with contextlib.suppress(OSError):
                os.rmdir(path)


def limit_disk(number: int, name: str, device: str, bytes_per_second: int) -> None:
    """Limits the machine's reads from and writes to `device` (major:minor); 0 lifts the limit.

    Version 1's group counts a process's reads and its synchronous writes (fsync); background writes belong to no group.
    """
    group = _disk_group(number, name)
    if not bytes_per_second and not group.exists():
        return
    group.mkdir(exist_ok=True)
    for way in ("read", "write"):
        (group / f"blkio.throttle.{way}_bps_device").write_text(f"{device} {bytes_per_second}\n")
    _move(_pids(number, name), group if bytes_per_second else group.parent)
    if not bytes_per_second:
        # A zombie may still be in the group; the next limit reuses the group.
        with contextlib.suppress(OSError):
            group.rmdir()


def _disk_group(number: int, name: str) -> Path:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    mounted = [Path(words[1]) for words in mounts if words[2] == "cgroup" and "blkio" in words[3].split(",")]
    if not mounted:
        raise RehearsalRefused(
            "this computer has no control group of version 1 for disks, so a machine without a kernel of its own"
            " cannot have a slow one\n  try     python -m rehearsal up v13a --kind qemu"
        )
    return mounted[0] / f"rehearsal{number}-{name}"


def _move(pids: set[int], group: Path) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended
            (group / "cgroup.procs").write_text(str(pid))


def _pids(number: int, name: str) -> set[int]:
    pids: set[int] = set()
    for group in of_machine(number, name):
        for path, _, _ in os.walk(group):
            with contextlib.suppress(OSError):
                pids.update(int(word) for word in (Path(path) / "cgroup.procs").read_text().split())
    return pids
