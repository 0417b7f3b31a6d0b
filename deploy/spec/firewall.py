"""Ports of a host that are reachable from outside, as an operator declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A port of the host that is open besides SSH and the servers. Without `sources` it is open to all."""

    port: int
    sources: tuple[str, ...] = ()
    protocol: Literal["tcp", "udp"] = "tcp"


@dataclass(frozen=True, kw_only=True)
class Firewall:
    """A separate table of nftables; other tables stay unchanged, and packets that they drop stay dropped.

    Networks are written as CIDR, IPv4 or IPv6. SSH is open to all unless `ssh` lists networks. `rest` covers all other
    ports of the host: unchanged, or closed except for `open`, ICMP and DHCP. Containers on docker0 are not outside.
    """

    allow: tuple[str, ...] = ()
    """Networks that reach the servers' HTTP and gRPC ports. The balancers that send to a host need not be named."""
    metrics: tuple[str, ...] = ()
    """Networks that reach the metrics ports; empty: those of `allow`."""
    ssh: tuple[str, ...] = ()
    open: tuple[Opening, ...] = ()
    rest: Literal["untouched", "closed"] = "untouched"
    confirm_seconds: int = 30
    """Seconds after which the host itself reverts new rules that no new SSH connection has confirmed."""
