"""A balancer of the inventory, and a host's settings for its traffic, as an operator declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deploy.spec.firewall import Firewall
from deploy.spec.proxy import Proxy
from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A host's answers to balancers that ask if it takes requests, and its wait for them at a stop.

    `gateways_port` is open if a `Gateway` of another host names this one, to that host alone, over mutual TLS.
    `ready_port` answers `GET /ready` as JSON, for balancers of others too; `agent_port` speaks HAProxy's agent-check.
    Without `address` both are at the host's `peer_address`, else at the address of its servers.
    """

    address: str = ""
    ready_port: int = 8003
    agent_port: int = 8004
    gateways_port: int = 8009
    drain_seconds: int = 60
    """Seconds that requests in flight have to end at a stop; then they are cut."""
    heard_seconds: int = 5
    """Seconds after which a stop no longer waits for a balancer that cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """The two ports of a balancer behind which a pool is: HTTP/1, and h2 for gRPC.

    `hold_seconds`: while no host of the pool is ready, requests wait this long and no longer; 0 answers 503 at once.
    `gateway_port`: a third port, for the gateways of the pool's hosts: OpenAI, Cohere and TEI over TLS; 0 is none.
    """

    pool: str
    http_port: int
    grpc_port: int
    hold_seconds: int = 0
    gateway_port: int = 0


@dataclass(frozen=True, kw_only=True)
class Balancer:
    """HAProxy as the distribution ships it, on a host of its own without GPU and servers.

    `address` is where clients connect to, and what hosts see it come from. `certificate` is a PEM file of the control
    machine with the chain; `certificate_key` its private key. Without both the ports speak plain text. `keys`: "file"
    asks every client of KServe's ports, HTTP and gRPC, for a key of `enginehouse key`; None asks nobody. Gateways
    behind `gateway_port` ask themselves. `clients` is a PEM file of authorities: whoever shows no certificate that one
    of them signed is refused at every port of the routes. Without both, `open_to_all` has to say so: whoever reaches
    KServe's ports may use every model, without limits, and past the gateway's keys.
    """

    os: str
    address: str
    routes: tuple[Route, ...]
    certificate: str = ""
    certificate_key: Secret | None = None
    keys: Literal["file"] | None = None
    clients: str = ""
    open_to_all: bool = False
    address_connections: int = 4096
    """Connections that one address, of IPv6 a /64, may have to the ports of a pool; more are closed before TLS. 0 is no
    limit, for a balancer behind one that hides its clients' addresses. HAProxy has 32,000 for all."""
    address_requests: int = 120_000
    """Requests a minute of one address, answered or refused, over the ports of a pool; 0 is no limit."""
    metrics_port: int = 8405
    """HAProxy's own Prometheus exporter, which the hosts ask for their requests in flight."""


@dataclass(frozen=True, kw_only=True)
class BalancerHost:
    """Everything the inventory says about a host that is a balancer."""

    name: str
    balancer: Balancer
    firewall: Firewall | None = None
    proxy: Proxy | None = None
    groups: tuple[str, ...] = ()
