"""A host that its cloud takes back: balancers are told, answers run until the margin, and what is left is counted.

The drain is that of the traffic service: a hold of every server, which balancers and gateways hear of within a second
or two. At `margin_seconds` before the end the servers are stopped, so that clients whose answers are not done get an
error at once and can ask another host. A drained host keeps its servers: a notice may be withdrawn.
"""

from __future__ import annotations

import os
from typing import Any

from host import history
from host.systemd import systemctl
from host.traffic.draining import units
from host.traffic.state import cut_file

HELD_SECONDS = 300.0
"""Beyond the end, renewed while the notice stands: a host that lives on takes requests again by itself."""


def cut(traffic: dict[str, Any]) -> None:
    """The servers are being stopped; their own wait for balancers ends at once."""
    cut_file().parent.mkdir(parents=True, exist_ok=True)
    cut_file().touch()
    systemctl("stop", "--no-block", *units(traffic))


def start_again(traffic: dict[str, Any]) -> None:
    """Servers that were stopped for a notice that was withdrawn are started."""
    cut_file().unlink(missing_ok=True)
    systemctl("start", "--no-block", *units(traffic))


def record(entry: dict[str, Any]) -> str:
    """Appends a line to the host's history; the result is the problem, or empty."""
    return history.record({"when": history.now(), "who": "this host's cloud"} | entry)


def boot() -> str:
    """The id of this boot: a host that was rebooted has had its interruption."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return str(os.getppid())
