"""Servers that outlive their starting command, found by pid file.

A pid alone is not enough to stop a process, because the system may have reused it. So the pid file also has the start
time, and both must agree.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from rehearsal import running
from rehearsal.places import REPOSITORY, RehearsalRefused

SECONDS_TO_START = 20


@dataclass(frozen=True)
class Process:
    """A detached server: its command, and the address at which it answers."""

    name: str
    folder: Path
    command: list[str]
    listens: tuple[str, int] | None
    code: str = ""
    """Digest of the program, so that a changed program is restarted."""

    def start(self) -> bool:
        """Starts the service; returns True if the service was not running, or ran another program."""
        wanted = [self.code, *self.command]
        if self.runs() and self._remembered() == wanted:
            return False
        self.stop()
        assert self.listens
        running.end_orphans(self.listens[0])
        self._refuse_taken_address()
        pid = _detached(self.command, self.folder / f"{self.name}.log")
        (self.folder / f"{self.name}.pid").write_text(f"{pid} {running.started_at(pid)}\n")
        (self.folder / f"{self.name}.command").write_text(json.dumps(wanted))
        self._wait()
        return True

    def stop(self) -> None:
        """Stops the service if pid and start time show that it was started here."""
        pid_file = self.folder / f"{self.name}.pid"
        if self.runs():
            running.end(int(pid_file.read_text().split()[0]))
        pid_file.unlink(missing_ok=True)

    def runs(self) -> bool:
        """Returns True if the process of the pid file still runs."""
        pid_file = self.folder / f"{self.name}.pid"
        if not pid_file.exists():
            return False
        pid, _, started = pid_file.read_text().strip().partition(" ")
        return bool(started) and running.started_at(int(pid)) == started

    def _remembered(self) -> list[str]:
        path = self.folder / f"{self.name}.command"
        return list(json.loads(path.read_text())) if path.exists() else []

    def _refuse_taken_address(self) -> None:
        assert self.listens
        try:
            socket.create_connection(self.listens, timeout=1).close()
        except OSError:
            return
        raise RehearsalRefused(
            f"{self.name} cannot listen on {self.listens[0]}:{self.listens[1]}: another program does\n"
            + _holders(running.listening(*self.listens), self.listens[1])
        )

    def _wait(self) -> None:
        assert self.listens
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until and self.runs():
            try:
                socket.create_connection(self.listens, timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        log = self.folder / f"{self.name}.log"
        raise RehearsalRefused(
            f"{self.name} does not listen on {self.listens[0]}:{self.listens[1]}\n"
            f"  said    {_last_line(log)}\n  log     {log}"
        )


def _detached(command: list[str], log: Path) -> int:
    """Starts a detached process through a shell; returns its pid."""
    shell = ["sh", "-c", '"$@" </dev/null >>"$0" 2>&1 & echo $!', str(log), *command]
    started = subprocess.run(
        shell, cwd=REPOSITORY, start_new_session=True, check=True, stdout=subprocess.PIPE, text=True
    )
    return int(started.stdout)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "nothing"


def _holders(running_processes: list[running.Running], port: int) -> str:
    """Returns the processes that listen at the address, and the command that ends them."""
    if not running_processes:
        return f"  try     `ss -ltnp 'sport = :{port}'` as root names it; stop it, then run again"
    pids = " ".join(str(process.pid) for process in running_processes)
    down = "".join(
        f"`python -m rehearsal down` in {process.directory} with its number, or "
        for process in running_processes[:1]
        if process.is_service and not process.is_orphan
    )
    return (
        "".join(f"  process {process}\n" for process in running_processes)
        + f"  try     {down}`kill {pids}`; then run again"
    )
