"""Decisions about hosts and balancers: routes, backends and the names of their lines."""

from dataclasses import asdict, dataclass, field

from deploy.slices.monitor import ExportersSlice
from deploy.slices.proxy import ProxySlice
from deploy.slices.support import without_sources
from deploy.spec import EngineTrust, Firewall, Mirrors, Secret


@dataclass(frozen=True, kw_only=True)
class SeenBySlice:
    """A balancer that sends to this host, and the place of its exporter's figures about the host."""

    name: str
    metrics: str


@dataclass(frozen=True, kw_only=True)
class TrafficServerSlice:
    """A server as balancers know it; `seen_as` is `BACKEND/LINE` for each backend with the server."""

    name: str
    models: tuple[str, ...]
    seen_as: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TrafficSlice:
    """The ports on which the host answers "ready" or "drain", and the balancers that a server's stop waits for."""

    address: str
    ready_port: int
    agent_port: int
    drain_seconds: int
    heard_seconds: int
    balancers: tuple[SeenBySlice, ...]
    servers: tuple[TrafficServerSlice, ...]


@dataclass(frozen=True, kw_only=True)
class MemberSlice:
    """A server of a pool as its balancer reaches it; `name` is its line in HAProxy, `server` its name for the agent."""

    name: str
    server: str
    address: str
    http_port: int
    grpc_port: int
    agent_address: str
    agent_port: int
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GatewayMemberSlice:
    """A process of a host's gateway as its balancer reaches it; `question` is the text that the host's agent gets."""

    name: str
    question: str
    address: str
    port: int
    agent_address: str
    agent_port: int


@dataclass(frozen=True, kw_only=True)
class GatewayRouteSlice:
    """The port for the gateways of a pool's hosts, their processes, and the longest time for an answer."""

    port: int
    answer_seconds: int
    members: tuple[GatewayMemberSlice, ...]


@dataclass(frozen=True, kw_only=True)
class RouteSlice:
    """The ports of a pool on a balancer, and the servers behind them."""

    pool: str
    http_port: int
    grpc_port: int
    hold_seconds: int
    held_in_flight: int
    """Held requests that each port sends on before one of them is answered."""
    members: tuple[MemberSlice, ...]
    gateway: GatewayRouteSlice | None = None


@dataclass(frozen=True, kw_only=True)
class BalancerSlice:
    """The wanted state of a balancer."""

    host: str
    os: str
    haproxy: str
    """The branch of the OS's own package: 2.6, 2.8, 3.0."""
    address: str
    metrics_port: int
    certificate: str
    certificate_key: Secret | None
    routes: tuple[RouteSlice, ...]
    firewall: Firewall | None = None
    exporters: ExportersSlice | None = None
    keys: str = ""
    """"file" if clients of KServe's ports need a key; empty if they do not."""
    sharing: int = 1
    """Number of balancers that require keys: each enforces its share of a key's limits."""
    clients: str = ""
    """File of the authorities that sign clients' certificates; empty if clients need no certificate."""
    address_connections: int = 0
    """Connections of one address to the ports of a pool; 0 is no limit. `address_requests`: its requests a minute."""
    address_requests: int = 0
    proxy: ProxySlice | None = None
    bundle: str = ""
    """Directory of the control machine that has this host's packages; empty for a connected host."""
    engine_trust: EngineTrust | None = None
    mirrors: Mirrors = field(default_factory=Mirrors)

    def data_disk(self) -> None:
        """None: a balancer stores no data."""

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists; a secret appears only as its source."""
        plain = without_sources(asdict(self))
        if not self.keys:
            del plain["keys"], plain["sharing"]
        if not self.clients:
            del plain["clients"]
        for route in plain["routes"]:
            if route["gateway"] is None:  # undeclared fields are left out, so digests of older inventories stay
                del route["gateway"]
        if self.proxy is None:
            del plain["proxy"]
        if self.exporters is None:  # as in Slice: undeclared fields are left out
            del plain["exporters"]
        return plain
