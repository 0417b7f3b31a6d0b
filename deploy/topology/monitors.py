"""Monitors and their targets: a host exports exactly the pages that a monitor reads.

A host opens only one port for monitors: every exporter, Triton and the gateway keep their addresses, and a program of
the host forwards their pages (files/host/metrics.py).
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import replace

from deploy.catalog.drivers import DRIVER_BRANCHES
from deploy.catalog.runtimes import rows_of
from deploy.slices.host import Slice
from deploy.slices.monitor import ExportersSlice, MonitorSlice, PageSlice, TargetSlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import Gateway, Host, MonitorHost, Server
from deploy.topology.balancing import LOOPBACK, address_of

METRICS_PORT = 8005
"""Port on which a host shows its pages to monitors."""
NODE_PORT, DCGM_PORT, BLACKBOX_PORT = 8006, 8007, 8008
"""Ports on loopback; the exporters' usual ones, also on loopback, stay free for an operator's own."""
OURS = {METRICS_PORT: "the pages for monitors", NODE_PORT: "node-exporter", DCGM_PORT: "dcgm-exporter"}


def exporters_of(host: Host, monitors: Iterable[MonitorHost]) -> ExportersSlice | None:
    """The pages that the host exports to monitors; None without a monitor."""
    known = list(monitors)
    if not known:
        return None
    image = next((monitor.monitor.dcgm_image for monitor in known if monitor.monitor.dcgm_image), "")
    pages = [_page("host", LOOPBACK, NODE_PORT), *([_page("dcgm", LOOPBACK, DCGM_PORT)] if image else [])]
    for server in host.servers:
        pages.append(_page(f"triton/{server.name}", _own(server), server.metrics_port))
        for model in server.in_triton:
            path = f"/v2/models/{model.name}/ready"
            pages.append(_page(f"model/{server.name}/{model.name}", _own(server), server.http_port, path))
        for llm in server.standalone_llms:
            pages.append(_page(f"llm/{server.name}", LOOPBACK, llm.port, rows_of(llm.runtime)[0].metrics.path))
            pages.append(_page(f"model/{server.name}/{llm.name}", LOOPBACK, llm.port, "/health"))
    if host.gateway:
        pages += [_page(f"gateway/{port}", _own(host.gateway), port) for port in host.gateway.ports]
    return ExportersSlice(
        address=address_of(host),
        port=METRICS_PORT,
        monitors=tuple(monitor.monitor.address for monitor in known),
        pages=tuple(pages),
        dcgm_image=image,
    )


def watched_balancer(mine: BalancerSlice, monitors: Iterable[MonitorHost]) -> BalancerSlice:
    """The balancer with its pages for monitors; its firewall admits monitors, because they probe it like clients."""
    addresses = tuple(monitor.monitor.address for monitor in monitors)
    if not addresses:
        return mine
    exporters = ExportersSlice(
        address=mine.address,
        port=METRICS_PORT,
        monitors=addresses,
        pages=(_page("host", LOOPBACK, NODE_PORT), _page("haproxy", mine.address, mine.metrics_port)),
    )
    firewall = mine.firewall
    if firewall:
        alone = (str(ipaddress.ip_network(address)) for address in addresses)
        firewall = replace(firewall, allow=tuple(dict.fromkeys([*firewall.allow, *alone])))
    return replace(mine, exporters=exporters, firewall=firewall)


def exporters_of_monitor(monitor: MonitorHost, monitors: Iterable[MonitorHost]) -> ExportersSlice:
    return ExportersSlice(
        address=monitor.monitor.address,
        port=METRICS_PORT,
        monitors=tuple(host.monitor.address for host in monitors),
        pages=(_page("host", LOOPBACK, NODE_PORT),),
    )


def monitor_slices(
    monitors: tuple[MonitorHost, ...], slices: Iterable[Slice], balancers: tuple[BalancerSlice, ...]
) -> tuple[MonitorSlice, ...]:
    """The slices of the monitors: each reads every page of every host, monitors included."""
    hosts = list(slices)
    shown = [(slice_.host, slice_.exporters) for slice_ in hosts] + [
        (slice_.host, slice_.exporters) for slice_ in balancers
    ]
    shown += [(monitor.name, exporters_of_monitor(monitor, monitors)) for monitor in monitors]
    targets = [target for host, exporters in shown if exporters for target in targets_of(host, exporters)]
    targets += [target for balancer in balancers for target in _routes(balancer)]
    branches = tuple(sorted({slice_.driver.branch for slice_ in hosts} & DRIVER_BRANCHES.keys()))
    return tuple(_monitor(monitor, tuple(targets), branches, monitors) for monitor in monitors)


def _monitor(
    monitor: MonitorHost, targets: tuple[TargetSlice, ...], branches: tuple[str, ...], monitors: Iterable[MonitorHost]
) -> MonitorSlice:
    declared = monitor.monitor
    return MonitorSlice(
        host=monitor.name,
        os=declared.os,
        address=declared.address,
        listen=declared.address if declared.allow else LOOPBACK,
        prometheus_port=declared.prometheus_port,
        alertmanager_port=declared.alertmanager_port,
        retention_days=declared.retention_days,
        retention_mib=declared.retention_mib,
        scrape_seconds=declared.scrape_seconds,
        receivers=declared.receivers,
        targets=targets,
        branches=branches,
        exporters=exporters_of_monitor(monitor, monitors),
        firewall=monitor.firewall,
        readers=declared.allow,
    )


def targets_of(host: str, exporters: ExportersSlice) -> Iterator[TargetSlice]:
    """A target for each page of a host: under its own job; a page of a model under `probe`."""
    address = in_address(exporters.address, exporters.port)
    for page in exporters.pages:
        job, _, rest = page.path.removeprefix("/").partition("/")
        instance = f"{host}/{rest}" if job in ("triton", "model", "llm") else host
        if job == "model":
            yield TargetSlice(
                job="probe",
                host=host,
                instance=instance,
                address=f"{LOOPBACK}:{BLACKBOX_PORT}",
                path="/probe",
                probe=f"http://{address}{page.path}",
            )
        else:
            port = int(rest) if job == "gateway" else 0
            yield TargetSlice(job=job, host=host, instance=instance, address=address, path=page.path, port=port)


def _routes(balancer: BalancerSlice) -> Iterator[TargetSlice]:
    """Probes of a balancer's ports as clients use them: each model, the gateways, a port that requires keys."""
    scheme = "https" if balancer.certificate else "http"
    for route in balancer.routes:
        models = dict.fromkeys(model for member in route.members for model in member.models)
        if balancer.keys or balancer.clients:
            # The balancer itself answers 401, which proves that it runs and shows the end of its certificate.
            probes = [("edge", route.http_port, "/v2/health/ready")]
        else:
            probes = [(model, route.http_port, f"/v2/models/{model}/ready") for model in models]
        probes += [("gateway", route.gateway.port, "/health")] if route.gateway else []
        for what, port, page in probes:
            yield TargetSlice(
                job="probe",
                host=balancer.host,
                instance=f"{balancer.host}/{route.pool}/{what}",
                address=f"{LOOPBACK}:{BLACKBOX_PORT}",
                path="/probe",
                probe=f"{scheme}://{in_address(balancer.address, port)}{page}",
            )


def _page(name: str, address: str, port: int, path: str = "/metrics") -> PageSlice:
    return PageSlice(path=f"/{name}", url=f"http://{in_address(address, port)}{path}")


def _own(listener: Server | Gateway) -> str:
    return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(listener.address, listener.address)


def in_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ipaddress.ip_address(address).version == 6 else f"{address}:{port}"
