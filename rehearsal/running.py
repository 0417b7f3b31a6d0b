"""Processes of this computer by pid: their start times, listeners on an address, and their end.

A service of a rehearsal outlives the command that started it, and its pid file is in its checkout. If a checkout was
removed before `down`, no command there can stop its services, and they keep the addresses of their number.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_STOP = 5
SERVICES = ("rehearsal.web", "rehearsal.registry", "rehearsal.hub")
DAEMON = "docker-registry"
SHOWN = 80
DELETED = " (deleted)"
"""The kernel's suffix of a removed directory's name."""


@dataclass(frozen=True)
class Running:
    """A process: its command, and the directory it was started in, which may no longer exist."""

    pid: int
    command: tuple[str, ...]
    directory: str
    is_orphan: bool
    """True if the directory no longer exists."""

    @property
    def is_service(self) -> bool:
        """Returns True for a service of some rehearsal, including the registry, which listens on loopback."""
        module = self.command[2] if self.command[1:2] == ("-m",) and len(self.command) > 2 else ""
        return module in SERVICES or Path(self.command[0]).name == DAEMON

    def __str__(self) -> str:
        command = " ".join(self.command)
        shown = command if len(command) <= SHOWN else command[:SHOWN] + "…"
        return f"{self.pid}: {shown}, started in {self.directory}{', which is gone' if self.is_orphan else ''}"


def started_at(pid: int) -> str:
    """Returns clock ticks from boot to the process's start, "" if it has ended or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def end(pid: int) -> None:
    """Terminates the process, or kills it if it does not end."""
    began = started_at(pid)
    if not began:
        return
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + SECONDS_TO_STOP
    while started_at(pid) == began and time.monotonic() < until:
        time.sleep(0.05)
    if started_at(pid) == began:
        os.kill(pid, signal.SIGKILL)


def listening(address: str, port: int | None = None) -> list[Running]:
    """Returns the processes that listen on an address, by pid; root also sees those of other users."""
    where = ["src", address if port is None else f"{address}:{port}"]
    shown = subprocess.run(["ss", "-Htulnp", *where], capture_output=True, text=True, check=True).stdout
    holders = (_running(pid) for pid in sorted({int(pid) for pid in re.findall(r"pid=(\d+)", shown)}))
    return [process for process in holders if process]


def naming(text: str) -> list[Running]:
    """Returns programs of rehearsals, including machines, with this text in a word of their command."""
    return [
        process
        for process in _all()
        if any(text in word for word in process.command)
        and (process.command[2:3] == ("rehearsal.nspawn",) or "qemu-system" in process.command[0] or process.is_service)
    ]


def end_orphans(address: str) -> None:
    """Ends services on the address whose checkout was removed, and other processes of those checkouts."""
    gone = {process.directory for process in listening(address) if process.is_service and process.is_orphan}
    for process in _all() if gone else ():
        if process.is_service and process.is_orphan and process.directory in gone:
            end(process.pid)


def _all() -> Iterator[Running]:
    for path in Path("/proc").glob("[0-9]*"):
        if process := _running(int(path.name)):
            yield process


def _running(pid: int) -> Running | None:
    """Returns the process; None if it has ended, belongs to another user, or is part of the kernel."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        directory = str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return None
    if words == [""]:
        return None
    return Running(pid, tuple(words), directory.removesuffix(DELETED), directory.endswith(DELETED))
