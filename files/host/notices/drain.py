"""The drain of a host that its cloud reclaims: balancers are informed, answers run until the margin, then a cut.

The drain is that of the traffic service: a hold of every server, which balancers and gateways notice within a second or
two. At `margin_seconds` before the end the servers are stopped, so that clients with unfinished answers get an error at
once and can ask another host. A drained host keeps its servers running, because a notice may be withdrawn.
"""

from __future__ import annotations

import os
from typing import Any

from host import history
from host.systemd import systemctl
from host.traffic.draining import units
from host.traffic.state import cut_file

HELD_SECONDS = 300.0
"""Seconds of a hold beyond the announced end, renewed while the notice is in force: a host that survives it then takes
requests again by itself."""


def cut(traffic: dict[str, Any]) -> None:
    """Marks that the servers are being stopped, which ends the servers' own wait for balancers at once."""
    cut_file().parent.mkdir(parents=True, exist_ok=True)
    cut_file().touch()
    systemctl("stop", "--no-block", *units(traffic))


def start_again(traffic: dict[str, Any]) -> None:
    """Starts servers that were stopped for a notice that was then withdrawn."""
    cut_file().unlink(missing_ok=True)
    systemctl("start", "--no-block", *units(traffic))


def record(entry: dict[str, Any]) -> str:
    """Appends a line to the host's history; returns the problem, or empty."""
    return history.record({"when": history.now(), "who": "this host's cloud"} | entry)


def boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return str(os.getppid())
