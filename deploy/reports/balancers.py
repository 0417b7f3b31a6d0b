"""The report of balancers: their ports, and the servers behind each port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

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
