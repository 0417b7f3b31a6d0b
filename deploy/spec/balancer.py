"""A balancer of the inventory, and a host's settings for balancers, as an operator declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deploy.spec.engines import EngineTrust
from deploy.spec.firewall import Firewall
from deploy.spec.machine import Mirrors
from deploy.spec.proxy import Proxy
from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A host's readiness answers to balancers, and its wait for balancers at a stop.

    `gateways_port` is open if a `Gateway` of another host names this one, to that host only, over mutual TLS.
    `ready_port` answers `GET /ready` as JSON, also for balancers outside the inventory; `agent_port` answers HAProxy's
    agent-check. Without `address` both listen at the host's `peer_address`, else at the address of its servers.
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
    """A route to a pool: the two ports of a balancer, HTTP/1 and h2 for gRPC.

    `hold_seconds`: requests wait at most this long while no host of the pool is ready; 0 answers 503 at once.
    `gateway_port`: a third port, for the gateways of the pool's hosts: OpenAI, Cohere and TEI over TLS; 0 means none.
    """

    pool: str
    http_port: int
    grpc_port: int
    hold_seconds: int = 0
    gateway_port: int = 0


@dataclass(frozen=True, kw_only=True)
class Balancer:
    """HAProxy from the distribution, on a separate host without GPU and servers.

    `address` is the address for clients, and the source address of its connections to hosts. `certificate` is a PEM
    file of the control machine with the chain; `certificate_key` its private key. Without both the ports have no
    TLS. `keys`: "file" requires a key of `enginehouse key` from every client of KServe's ports, HTTP and gRPC; None
    requires no key. Gateways behind `gateway_port` check keys themselves. `clients` is a PEM file of authorities: a
    client without a certificate signed by one of them is refused at every port of the routes. Without both,
    `open_to_all` must be set: then every client that reaches KServe's ports may use every model, without limits, and
    without a key of the gateway.
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
    """Everything in the inventory about a host that is a balancer."""

    name: str
    balancer: Balancer
    firewall: Firewall | None = None
    proxy: Proxy | None = None
    connected: bool = True
    """False: its packages come from `bundle`, as a GPU host's do."""
    bundle: str = "bundle"
    engine_trust: EngineTrust | None = None
    """The key that signed the bundle."""
    mirrors: Mirrors = Mirrors()
    """Read only for the bundle: `system` is the mirror that `enginehouse bundle` takes the packages from."""
    groups: tuple[str, ...] = ()
