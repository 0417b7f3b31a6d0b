"""Waiting for a machine, and what is known of one that does not come: its console, its own words, its cable.

A machine that boots without a network looks from outside like one that hangs; only from inside can they be told apart.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal.network import Network
from rehearsal.places import RehearsalRefused

if TYPE_CHECKING:
    from rehearsal.machine import Machine

NO_LOGIN = "/run/nologin"
"""While a machine boots it turns away everybody but root (pam_nologin), also after its sshd has begun to greet."""
ASKED = (
    "systemctl is-system-running; systemctl list-jobs --no-legend --plain | head -n 5;"
    " systemctl list-units --failed --no-legend --plain | head -n 5; systemctl is-active ssh systemd-networkd;"
    f" ip -br address; ss -Hltn | head -n 5; ls {NO_LOGIN} 2>/dev/null"
)
ANSWER_SECONDS = 10


def greets(address: str) -> bool:
    """Whether an SSH server says its first word there."""
    with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=1) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def wait_for(is_so: Callable[[], bool], seconds: float, one: Machine) -> None:
    """It is so, before that many seconds; refuses with all that can be seen of the machine otherwise."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return
        time.sleep(0.05)
    logs = [one.directory / "supervisor.log", one.directory / "console.log"]
    raise RehearsalRefused(
        f"{one.name} did not come to the wanted state within {seconds:.0f} s\n  state   {one.state}\n"
        f"  said\n{_indented(line for log in logs for line in _last_lines(log))}\n"
        f"  inside\n{_indented(_inside(one))}\n  cable   {_cable(one)}\n  logs    {logs[0]}, {logs[1]}"
    )


def _last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []


def _inside(one: Machine) -> list[str]:
    """What the machine says when it is asked without a network."""
    if one.state != "running":
        return [f"not asked: it is {one.state}"]
    try:
        return one.run(ASKED, check=False, timeout=ANSWER_SECONDS).stdout.splitlines()
    except (RehearsalRefused, subprocess.SubprocessError, OSError) as problem:
        return [f"no answer: {problem}"]


def _cable(one: Machine) -> str:
    """The outer end of its cable and the bridge, as the kernel has them."""
    network = Network(one.places.number)
    shown = [
        subprocess.run(["ip", "-br", "link", "show", link], capture_output=True, text=True, check=False)
        for link in (network.link(one.name), network.bridge)
    ]
    return "; ".join(" ".join((each.stdout or each.stderr).split()) for each in shown)


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"          {line.strip()}" for line in lines)
