"""Refusals of a host's `traffic`: times and ports that cannot work, and invalid addresses."""

import re
from collections.abc import Iterator

from deploy.inventory.reach import ip_of, is_name
from deploy.refusals import Refusal, refuse
from deploy.spec import Host
from deploy.topology.balancing import is_loopback, is_reachable

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def traffic_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each value of `traffic` that cannot work."""
    if host.peer_address and not (_is_dns_name(host.peer_address) or _is_address(host.peer_address)):
        yield refuse(
            "bad-peer-address",
            f"{host.peer_address!r} is not a name or address that other hosts could connect to",
            where="peer_address",
            seen=repr(host.peer_address),
            wanted="an address of the host, or its name",
            attempt=f'"peer_address": "{_address_in(host.peer_address)}"',
        )
    if host.traffic.address and not _is_address(host.traffic.address):
        yield refuse(
            "bad-address",
            f"{host.traffic.address!r} is not an IP address that a balancer could connect to",
            where="traffic.address",
            seen=repr(host.traffic.address),
            wanted="an address of the host",
            attempt=f'hostname -I on {host.name} shows its addresses; then Traffic(address="ITS OWN ADDRESS")',
        )


def _address_in(text: str) -> str:
    """The address in a text with a port, a prefix length or a scheme; an example without an address."""
    bare = re.sub(r"^\w+://|/.*$|(?<=\])?:[0-9]{1,5}$", "", text.strip()).strip("[]")
    return bare if is_reachable(bare) else "10.0.0.11"


def _is_dns_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and is_name(text)


def _is_address(text: str) -> bool:
    return "%" not in text and ip_of(text) is not None and (is_loopback(text) or is_reachable(text))
