"""Decisions about monitors and the hosts that they scrape."""

from dataclasses import asdict, dataclass, field

from deploy.slices.proxy import ProxySlice
from deploy.slices.support import without_sources
from deploy.spec import EngineTrust, Firewall, Mirrors, Secret


@dataclass(frozen=True, kw_only=True)
class PageSlice:
    """A host's page that monitors read at `path`; the host itself reads it at `url`."""

    path: str
    url: str


@dataclass(frozen=True, kw_only=True)
class ExportersSlice:
    """The exporters of a host, behind a port that only monitors reach: a page for each program."""

    address: str
    port: int
    monitors: tuple[str, ...]
    """Addresses of the readers."""
    pages: tuple[PageSlice, ...]
    dcgm_image: str = ""


@dataclass(frozen=True, kw_only=True)
class TargetSlice:
    """A Prometheus target of a job: `path` at `address` (HOST:PORT), under the labels that alerts and dashboards use.

    For the job `probe`, `probe` is the URL that the blackbox-exporter requests.
    """

    job: str
    host: str
    instance: str
    address: str
    path: str = ""
    probe: str = ""
    port: int = 0
    """The port's number among those of a gateway with several processes."""


@dataclass(frozen=True, kw_only=True)
class MonitorSlice:
    """The wanted state of a monitor."""

    host: str
    os: str
    address: str
    listen: str
    """Address of Prometheus and Alertmanager: `address`, or loopback if no reader is allowed."""
    prometheus_port: int
    alertmanager_port: int
    retention_days: int
    retention_mib: int
    scrape_seconds: int
    receivers: Secret | None
    targets: tuple[TargetSlice, ...]
    branches: tuple[str, ...]
    """Driver branches of the fleet: their ends are alerts."""
    exporters: ExportersSlice
    """Pages that this host shows to itself and to other monitors."""
    firewall: Firewall | None = None
    readers: tuple[str, ...] = ()
    """Networks that may read both."""
    proxy: ProxySlice | None = None
    bundle: str = ""
    """Directory of the control machine that has this host's packages; empty for a connected host."""
    engine_trust: EngineTrust | None = None
    mirrors: Mirrors = field(default_factory=Mirrors)

    def data_disk(self) -> None:
        """None: samples are on the system's disk."""

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists; a secret appears only as its source."""
        plain = without_sources(asdict(self))
        if self.proxy is None:  # as in Slice: undeclared fields are left out
            del plain["proxy"]
        return plain
