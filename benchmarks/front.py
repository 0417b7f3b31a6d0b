"""Ports and times that the fleet's inventory declares, and on which its load and its figures depend."""

from __future__ import annotations

FIRST_PORT, PORTS_APART = 9000, 10
"""The first pool's HTTP port on a balancer (gRPC is the next one), and the distance to the next pool's."""
METRICS_PORT = 8405
DRAIN_SECONDS = 5
"""Seconds of a drain: fewer than the longest answers take, so that some streams are cut."""
HOLD_SECONDS = 110
"""Longest hold of requests to a pool of one host: longer than a swap or a reboot takes."""


def ports(pool: int) -> tuple[int, int]:
    """Returns HTTP and gRPC ports of the pool of that number on every balancer."""
    first = FIRST_PORT + PORTS_APART * pool
    return first, first + 1
