"""The monitors of an inventory, as an operator declares them."""

from dataclasses import dataclass

from deploy.spec.engines import EngineTrust
from deploy.spec.firewall import Firewall
from deploy.spec.machine import Mirrors
from deploy.spec.proxy import Proxy
from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """Prometheus, Alertmanager and blackbox-exporter from the distribution, on a host without servers.

    `address` is its source address for the other hosts, whose exporters accept only this address. Every host of the
    inventory gets exporters.
    """

    os: str
    address: str
    allow: tuple[str, ...] = ()
    """Networks that may read Prometheus and Alertmanager. Without any, both answer only on loopback (`ssh -L`)."""
    prometheus_port: int = 9090
    alertmanager_port: int = 9093
    retention_days: int = 30
    retention_mib: int = 20_480
    """Largest MiB of samples; the oldest are deleted beyond it, or after `retention_days`."""
    scrape_seconds: int = 15
    receivers: Secret | None = None
    """YAML with Alertmanager's `receivers`, those called `page` and `ticket` among them:
    `Secret.command("cat", "secrets/receivers.yml")`. None: alerts are shown, and no message is sent."""
    dcgm_image: str = ""
    """`NAME@sha256:…` of dcgm-exporter, which then runs on every host with a GPU. Empty: it runs nowhere."""


@dataclass(frozen=True, kw_only=True)
class MonitorHost:
    """Everything in the inventory about a host that is a monitor."""

    name: str
    monitor: Monitor
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
