"""A host's servers behind mutual TLS, as HAProxy's configuration. Pure: the same slice gives the same bytes."""

from dataclasses import dataclass

from deploy.catalog import SYSTEMS
from deploy.inventory.reach import own_address
from deploy.inventory.ssh_config import in_brackets
from deploy.slices.gateway import MutualSlice
from deploy.slices.host import Slice
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
        address=in_brackets(mutual.address),
        port=mutual.port,
        gateways=[gateway.name for gateway in mutual.gateways],
        servers={
            server.name: f"{in_brackets(own_address(server.address))}:{server.grpc_port}" for server in mine.servers
        },
        ready=f"{in_brackets(traffic.address)}:{traffic.ready_port}" if traffic else "",
    )
