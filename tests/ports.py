"""Ports for servers that a test starts, reserved until the test's process ends.

The kernel assigns ports of its own range (32768 and up) to connections: a port that was bound, released and passed to a
server may belong to a client by then. These ports are below that range. Parallel tests reserve them by the name of an
abstract socket, which the kernel frees at any end of its process.
"""

import contextlib
import random
import socket
from pathlib import Path

LEAST = 20000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Returns a number of free ports, for all addresses of this machine."""
    least_of_clients = int(EPHEMERAL.read_text().split()[0])
    if least_of_clients <= LEAST:  # an operator widened the range of ephemeral ports, so any port may be a client's
        least_of_clients = 32768
    candidates = random.sample(range(LEAST, least_of_clients), least_of_clients - LEAST)
    free = (port for port in candidates if _is_ours(port) and not _is_taken(port))
    return [next(free) for _ in range(count)]


def free_port() -> int:
    return free_ports(1)[0]


def _is_ours(port: int) -> bool:
    """Reserves the port; returns False if another test has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0enginehouse-tests-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # stays open until this process ends
    return True


def _is_taken(port: int) -> bool:
    with contextlib.closing(socket.socket()) as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return True
    return False
