"""The reports of support hosts: a balancer's ports and the servers behind them; a monitor's targets and readers."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice, RouteSlice

TITLES = ("pool", "HTTP", "gRPC", "if no server is ready", "servers")


def balancers_report(balancers: Iterable[BalancerSlice]) -> Iterator[RenderableType]:
    for balancer in balancers:
        yield Text(f"{balancer.host}   HAProxy {balancer.haproxy} of {balancer.os}, {balancer.address}", style="bold")
        table = Table(box=None, pad_edge=False)
        for title in TITLES:
            table.add_column(title, overflow="fold")
        for route in balancer.routes:
            table.add_row(*_route(route))
        yield table
        for route in balancer.routes:
            if route.gateway:
                addresses = ", ".join(f"{member.address}:{member.port}" for member in route.gateway.members)
                yield Text(f"gateways of {route.pool}, TLS at port {route.gateway.port}: {addresses}")
        certificate = f"certificate {balancer.certificate}" if balancer.certificate else "plain text, no certificate"
        certificate += f", clients must show one signed by {balancer.clients}" if balancer.clients else ""
        certificate += ", a key for each client" if balancer.keys else ""
        yield Text(f"{certificate}; metrics at port {balancer.metrics_port}")
        yield Text("")


def _route(route: RouteSlice) -> tuple[str, ...]:
    waits = f"requests wait {route.hold_seconds} s" if route.hold_seconds else "503 at once"
    addresses = ", ".join(f"{member.address}:{member.http_port}" for member in route.members)
    return route.pool, str(route.http_port), str(route.grpc_port), waits, f"{len(route.members)}: {addresses}"


def monitors_report(monitors: Iterable[MonitorSlice]) -> Iterator[RenderableType]:
    for monitor in monitors:
        yield Text(f"{monitor.host}   Prometheus and Alertmanager of {monitor.os}, {monitor.address}", style="bold")
        jobs = [target.job for target in monitor.targets]
        counts = ", ".join(f"{job} {jobs.count(job)}" for job in dict.fromkeys(jobs))
        yield Text(f"reads every {monitor.scrape_seconds} s: {counts}")
        kept = f"{monitor.retention_days} days or {monitor.retention_mib:,} MiB, whichever is reached first"
        yield Text(f"keeps samples for {kept}")
        readers = ", ".join(monitor.readers) or "this host alone"
        yield Text(
            f"Prometheus {monitor.listen}:{monitor.prometheus_port}, Alertmanager :{monitor.alertmanager_port}, "
            f"read by {readers}"
        )
        yield Text("alerts are sent to the receivers" if monitor.receivers else "alerts are only shown: no receivers")
        yield Text("")
