"""Ports for servers that a test starts: nobody listens on them, and nobody takes them until the test's process ends.

The kernel hands out ports of its own range (32768 and up) to every connection: one that was bound, let go and passed to
a server may be a client's by then. These lie below that range. Tests that run side by side share them by the name of an
abstract socket, which the kernel takes back however its process ends.
"""

import contextlib
import random
import socket
from pathlib import Path

LEAST = 20000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """A number of free ports, for all addresses of this machine."""
    least_of_clients = int(EPHEMERAL.read_text().split()[0])
    if least_of_clients <= LEAST:  # a machine of somebody who chose so: any port may be a client's
        least_of_clients = 32768
    candidates = random.sample(range(LEAST, least_of_clients), least_of_clients - LEAST)
    free = (port for port in candidates if _is_ours(port) and not _is_taken(port))
    return [next(free) for _ in range(count)]


def free_port() -> int:
    return free_ports(1)[0]


def _is_ours(port: int) -> bool:
    """True if no other test has it; from now on no other one gets it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0enginehouse-tests-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # open until this process ends
    return True


def _is_taken(port: int) -> bool:
    with contextlib.closing(socket.socket()) as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return True
    return False
