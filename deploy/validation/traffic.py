"""Refusals of a host's `traffic`: times and ports that cannot work, and invalid addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from deploy.inventory.reach import is_name
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec import Host, Traffic

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
LIMITS = {
    "ready_port": (1024, 65535),
    "agent_port": (1024, 65535),
    "drain_seconds": (1, 3600),
    "heard_seconds": (1, 60),
}


def traffic_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each value of `traffic` that cannot work."""
    for name, (low, high) in LIMITS.items():
        value = getattr(host.traffic, name)
        if not low <= value <= high:
            yield refuse(
                "out-of-range",
                f"{name} of {value} cannot work",
                where=f"traffic.{name}",
                seen=str(value),
                wanted=f"{low} to {high}",
                attempt=f"Traffic({name}={getattr(Traffic(), name)}), the default",
            )
    if host.peer_address and not (_is_dns_name(host.peer_address) or _is_address(host.peer_address)):
        yield refuse(
            "bad-peer-address",
            f"{host.peer_address!r} is no name or address that other hosts could connect to",
            where="peer_address",
            seen=repr(host.peer_address),
            wanted="an address of the host, or its name",
            attempt='"peer_address": "10.0.0.11"',
        )
    if host.traffic.address and not _is_address(host.traffic.address):
        yield refuse(
            "bad-address",
            f"{host.traffic.address!r} is no IP address that a balancer could connect to",
            where="traffic.address",
            seen=repr(host.traffic.address),
            wanted="an address of the host",
            attempt='peer_address="10.0.0.11", or Traffic(address="10.0.0.11")',
        )


def _is_dns_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and is_name(text)


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False
