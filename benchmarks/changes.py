"""Changes to a fleet under load: a run with a changed inventory, or a manual action on one host."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import fleet
from benchmarks.in_rotation import hosts_in
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused

RUNS = ("release", "driver", "daemon")
"""Changes of the inventory between two runs."""
STOP_SECONDS = 300
BACK_SECONDS = 240


def _command(words: str) -> Callable[[Machine], object]:
    return lambda machine: machine.run(words, timeout=STOP_SECONDS)


BY_HAND: Mapping[str, Callable[[Machine], object]] = {
    "reboot": Machine.reboot,
    "restart-server": _command("systemctl restart triton@main.service"),  # the watchdog's action
    "restart-docker": _command("systemctl restart docker.service"),
    "upgrade-docker": _command("apt-get install --yes --reinstall --allow-change-held-packages docker-ce"),
}
"""Changes of a host outside any run."""


@dataclass(frozen=True)
class Ran:
    """The result of a change: its exit code, the number of operations that changed something, and the output."""

    code: int
    changed: int
    output: str


def run(change: str, serving: Sequence[Machine]) -> Ran:
    """Runs `pyinfra … deploy.py -y` with the current inventory.

    Before a change of the driver a program opens the GPU of every host, so that only a reboot can load the new driver.
    """
    for machine in serving if change == "driver" else []:
        machine.run("echo exporter >>/run/rehearsal/nvidia-users")  # lost at a reboot
    ended = fleet.deploy()
    return Ran(ended.code, ended.totals["success"], ended.output)


def by_hand(name: str, machine: Machine, exporters: Sequence[str], expected: Mapping[str, int]) -> Ran:
    """Makes the change on this host manually, and waits until every balancer sends to `expected` hosts of each pool
    again.
    """
    BY_HAND[name](machine)
    end = time.monotonic() + BACK_SECONDS
    while not all(_shown(exporter, list(expected)) == expected for exporter in exporters):
        if time.monotonic() > end:
            raise RehearsalRefused(f"{machine.name} is not sent requests again {BACK_SECONDS} s after {name}")
        time.sleep(0.5)
    return Ran(0, 1, "")


def _shown(exporter: str, pools: Sequence[str]) -> dict[str, int]:
    with urllib.request.urlopen(exporter, timeout=10) as answer:
        return hosts_in(answer.read().decode(), pools)
