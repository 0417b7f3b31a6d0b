"""Waiting for a machine, and diagnostics of one that does not start: its console, its state inside, its network link.

From outside, a machine without a network looks like a hanging machine; only diagnostics from inside distinguish them.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from rehearsal.network import Network
from rehearsal.places import Places, RehearsalRefused

NO_LOGIN = "/run/nologin"
"""Message of a booting machine, which rejects all users except root (pam_nologin), even after its sshd has begun to
answer."""
ASKED = (
    "systemctl is-system-running; systemctl list-jobs --no-legend --plain | head -n 5;"
    " systemctl list-units --failed --no-legend --plain | head -n 5; systemctl is-active ssh systemd-networkd;"
    f" ip -br address; ss -Hltn | head -n 5; ls {NO_LOGIN} 2>/dev/null"
)
ANSWER_SECONDS = 10


class Awaited(Protocol):
    """The interface of a machine that does not start, for machines of all kinds."""

    @property
    def name(self) -> str:
        """Returns the machine's name."""

    @property
    def places(self) -> Places:
        """Returns the rehearsal to which the machine belongs."""

    @property
    def directory(self) -> Path:
        """Returns the directory of its logs."""

    @property
    def state(self) -> str:
        """Returns `running`, `starting` or `off`."""

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300
            ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Runs a shell command inside."""


def greets(address: str) -> bool:
    """Returns True if an SSH server sends its banner at the address."""
    with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=1) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def wait_for(is_so: Callable[[], bool], seconds: float, machine: Awaited) -> None:
    """Waits for the condition; after `seconds` refuses with the diagnostics of the machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return
        time.sleep(0.05)
    logs = [machine.directory / "supervisor.log", machine.directory / "console.log"]
    raise RehearsalRefused(
        f"{machine.name} did not come to the wanted state within {seconds:.0f} s\n  state   {machine.state}\n"
        f"  said\n{_indented(line for log in logs for line in _last_lines(log))}\n"
        f"  inside\n{_indented(_inside(machine))}\n  cable   {_cable(machine)}\n  logs    {logs[0]}, {logs[1]}"
    )


def _last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []


def _inside(machine: Awaited) -> list[str]:
    """Returns the machine's diagnostics from inside, without a network."""
    if machine.state != "running":
        return [f"not asked: it is {machine.state}"]
    try:
        return machine.run(ASKED, check=False, timeout=ANSWER_SECONDS).stdout.splitlines()
    except (RehearsalRefused, subprocess.SubprocessError, OSError) as problem:
        return [f"no answer: {problem}"]


def _cable(machine: Awaited) -> str:
    """Returns the outer end of its network link and the bridge, from the kernel."""
    network = Network(machine.places.number)
    shown = [
        subprocess.run(["ip", "-br", "link", "show", link], capture_output=True, text=True, check=False)
        for link in (network.link(machine.name), network.bridge)
    ]
    return "; ".join(" ".join((shown_link.stdout or shown_link.stderr).split()) for shown_link in shown)


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"          {line.strip()}" for line in lines)
