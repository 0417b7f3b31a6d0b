"""A host's servers behind mutual TLS, as HAProxy's configuration. Pure: the same slice gives the same bytes."""

import ipaddress
from dataclasses import dataclass

from deploy.catalog import SYSTEMS
from deploy.slices.gateway import MutualSlice
from deploy.slices.host import Slice
from deploy.topology.balancing import LOOPBACK
from roles._shipping.haproxy import EVERY, streams
from roles._shipping.templates import template
from roles.mutual.defaults import AUTHORITY, CERTIFICATE


@dataclass(frozen=True)
class Places:
    """Files that HAProxy reads, and the user it switches to (empty: keep the current user)."""

    certificate: str = CERTIFICATE
    authority: str = AUTHORITY
    user: str = "haproxy"


PLACES = Places()


def config(mine: Slice, mutual: MutualSlice, places: Places = PLACES) -> str:
    """The text of HAProxy's configuration for the port with mutual TLS."""
    traffic = mine.traffic
    return template("mutual", "haproxy.cfg.j2").render(
        **EVERY,
        places=places,
        streams=streams(SYSTEMS[mine.machine.os].haproxy),
        address=_bracketed(mutual.address),
        port=mutual.port,
        gateways=[gateway.name for gateway in mutual.gateways],
        servers={server.name: f"{_own(server.address)}:{server.grpc_port}" for server in mine.servers},
        ready=f"{_bracketed(traffic.address)}:{traffic.ready_port}" if traffic else "",
    )


def _own(address: str) -> str:
    """The address at which the host itself reaches its own server."""
    there = ipaddress.ip_address(address)
    if there.is_unspecified:
        return LOOPBACK if there.version == 4 else "[::1]"
    return _bracketed(address)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
