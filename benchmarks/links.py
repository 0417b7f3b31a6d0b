"""Machines of a network with links slow in both directions: network namespaces on one bridge, limited by tc.

Needs root, iproute2 and sch_tbf. The end of `network` removes all namespaces and links.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

BURST = "64kb"
"""Burst of the limit; the kernel passes on packets of up to 64 KiB."""
LATENCY = "50ms"


@dataclass(frozen=True)
class Machine:
    """A network namespace with an address."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """Returns the command that runs `words` in the machine."""
        return ["ip", "netns", "exec", self.name, *words]


@contextlib.contextmanager
def network(machines: int, mbit: int) -> Iterator[list[Machine]]:
    """Yields a network of `count` machines, each able to send `mbit` Mbit/s and to receive as much."""
    prefix = f"fan{os.getpid()}"
    switch = f"{prefix}-switch"
    made = [Machine(f"{prefix}-{number}", f"10.77.{number // 200}.{number % 200 + 1}") for number in range(machines)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number, machine in enumerate(made):
            _plug_in(machine, switch, f"port{number}", mbit)
        yield made
    finally:
        for name in [*(machine.name for machine in made), switch]:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def _plug_in(machine: Machine, switch: str, port: str, mbit: int) -> None:
    """Limits the machine's sending at its own end, and its receiving at the bridge's."""
    _ip("netns", "add", machine.name)
    _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
    _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
    _ip("-n", machine.name, "link", "set", "lo", "up")
    _ip("-n", machine.name, "address", "add", f"{machine.address}/16", "dev", "eth0")
    _ip("-n", machine.name, "link", "set", "eth0", "up")
    for namespace, device in ((machine.name, "eth0"), (switch, port)):
        limit = ["tbf", "rate", f"{mbit}mbit", "burst", BURST, "latency", LATENCY]
        subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *limit], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
