"""HTTPS before a host's gateway as HAProxy's configuration. Pure: the same slice gives the same bytes."""

import ipaddress
from dataclasses import dataclass

from deploy.catalog import SYSTEMS
from deploy.slices.host import Slice
from deploy.spec import Https
from deploy.topology.balancing import answer_seconds
from roles._shipping.haproxy import EVERY, GATEWAY, GATEWAY_CHECKS, PATIENCE_SECONDS, streams
from roles._shipping.templates import template
from roles.https.operations import shown_certificate

NAME = "gateway"
"""Name of the frontend, of its table and of the backend."""


@dataclass(frozen=True)
class Places:
    """HAProxy's certificate (empty: the role's own), and the user it switches to (empty: keep the current user)."""

    certificate: str = ""
    user: str = "haproxy"


PLACES = Places()


def config(mine: Slice, https: Https, places: Places = PLACES) -> str:
    """The text of HAProxy's configuration."""
    gateway = mine.gateway
    assert gateway, "HTTPS stands before a gateway"
    own = f"[{gateway.address}]" if ":" in gateway.address else gateway.address
    return template("https", "haproxy.cfg.j2").render(
        **EVERY,
        **GATEWAY,
        places=places,
        certificate=places.certificate or shown_certificate(https),
        streams=streams(SYSTEMS[mine.machine.os].haproxy),
        listen=_listen(https),
        name=NAME,
        most_connections=https.address_connections,
        most_requests=https.address_requests,
        patience_seconds=max(PATIENCE_SECONDS, answer_seconds(gateway)),
        checks=GATEWAY_CHECKS,
        ports=gateway.ports,
        own=own,
    )


def _listen(https: Https) -> str:
    """Address and port as HAProxy binds them; the unspecified IPv6 address takes IPv4 too."""
    address = ipaddress.ip_address(https.address)
    if address.version == 4:
        return f"{https.address}:{https.port}"
    return f"[{https.address}]:{https.port}" + (" v4v6" if address.is_unspecified else "")
