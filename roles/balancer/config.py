"""A balancer's slice as HAProxy's configuration. Pure: the same slice, checks and certificate give the same bytes.

Each line of a server has its own health and agent checks. The gRPC line could `track` the HTTP line, but a tracked
server cannot leave while HAProxy runs, and one that joins at run time cannot track.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from deploy.inventory.ssh_config import in_brackets
from deploy.slices.traffic import BalancerSlice, GatewayMemberSlice, GatewayRouteSlice, MemberSlice, RouteSlice
from deploy.topology.balancing import backends, gateway_backend
from roles._shipping.haproxy import EVERY, GATEWAY, GATEWAY_CHECKS, PATIENCE_SECONDS, streams
from roles._shipping.templates import template
from roles._shipping.texts import HERE
from roles.balancer.defaults import PLACES, Places
from roles.balancer.keys import map_path

CHECKS = "inter 2s fastinter 500ms downinter 500ms fall 3 rise 1"
AGENT = "agent-inter 500ms"
OF_A_HOST = " agent-check "
"""Text in the line of a host's server, and in no other line."""
ARRIVAL_HEADER = "x-enginehouse-came"
"""Internal header of HAProxy that marks a held request."""
Checked = Mapping[str, tuple[str, ...]]
"""The models of each pool that must be ready on a server."""


def config(
    mine: BalancerSlice, checked: Checked, certificate: str = "", clients: str = "", places: Places = PLACES
) -> str:
    """The whole file.

    `certificate` is the path of the PEM file on the balancer, empty for ports in plain text; `clients` the path of the
    authorities of client certificates, empty if clients need no certificate.
    """
    is_v6 = ipaddress.ip_address(mine.address).version == 6
    values = {
        "version": mine.haproxy,
        "places": places,
        "came": ARRIVAL_HEADER,
        "streams": streams(mine.haproxy),
        "certificate": certificate,
        # A client without a certificate only gets a message that names the missing certificate.
        "tls": f" ssl crt {certificate}{clients and f' ca-file {clients} verify optional'}" if certificate else "",
        "clients": clients,
        "address": f"[{mine.address}]" if is_v6 else mine.address,
        "everywhere": "[::]" if is_v6 else "*",
        "metrics_port": mine.metrics_port,
        "patience_seconds": _patience_seconds(mine),
        **EVERY,
        **GATEWAY,
        "keys": mine.keys,
        "most_connections": mine.address_connections,
        "most_requests": mine.address_requests,
        "routes": [_route(route, checked[route.pool], places) for route in mine.routes],
    }
    filled = template("balancer", "haproxy.cfg.j2").render
    return filled(**values, digest=_digest(filled(**values, digest="")))


def everything(mine: BalancerSlice) -> Checked:
    return {
        route.pool: tuple(dict.fromkeys(model for member in route.members for model in member.models))
        for route in mine.routes
    }


def until_all_have_them(mine: BalancerSlice, now: Checked) -> Checked:
    """Models to check while hosts are updated: models that are checked `now` and stay; for a new pool, all models.

    A check of a model that only some of the hosts have would take the others out.
    """
    return {
        pool: tuple(model for model in models if pool not in now or model in now[pool])
        for pool, models in everything(mine).items()
    }


def hold() -> str:
    return (HERE / "files" / "balancer" / "hold.lua").read_text()


def line(member: MemberSlice, grpc: bool) -> str:
    """Arguments of `server` in the file and of the command `add server`, which both need all arguments."""
    port = f"{member.grpc_port} proto h2" if grpc else str(member.http_port)
    return (
        f"{member.name} {in_brackets(member.address)}:{port} check check-proto h1 port {member.http_port} {CHECKS}"
        f" agent-check agent-addr {member.agent_address} agent-port {member.agent_port} {AGENT}"
        # HAProxy sends no request before the agent reports `ready`. It closes idle connections, for which Triton's exit
        # waits.
        rf' agent-send "{member.server}\n" pool-max-conn 0 disabled'
    )


def gateway_line(member: GatewayMemberSlice) -> str:
    return (
        f"{member.name} {in_brackets(member.address)}:{member.port} check port {member.port} {GATEWAY_CHECKS}"
        f" agent-check agent-addr {member.agent_address} agent-port {member.agent_port} {AGENT}"
        rf' agent-send "{member.question}\n" pool-max-conn 0 disabled'
    )


def _patience_seconds(mine: BalancerSlice) -> int:
    return max([PATIENCE_SECONDS, *(route.gateway.answer_seconds for route in mine.routes if route.gateway)])


def _gateway(pool: str, gateway: GatewayRouteSlice | None) -> dict[str, object] | None:
    if gateway is None:
        return None
    return {
        "port": gateway.port,
        "backend": gateway_backend(pool),
        "lines": [gateway_line(member) for member in gateway.members],
    }


def _route(route: RouteSlice, models: Iterable[str], places: Places) -> dict[str, object]:
    http, grpc = backends(route.pool)
    return {
        "pool": route.pool,
        "http_port": route.http_port,
        "grpc_port": route.grpc_port,
        "hold_seconds": route.hold_seconds,
        "map": map_path(route.pool, places),
        "held_in_flight": route.held_in_flight,
        "http": http,
        "grpc": grpc,
        "pages": [f"/v2/models/{model}/ready" for model in models] or ["/v2/health/ready"],
        "gateway": _gateway(route.pool, route.gateway),
        "backends": [(http, list(_lines(route, False))), (grpc, list(_lines(route, True)))],
    }


def _lines(route: RouteSlice, grpc: bool) -> Iterator[str]:
    return (line(member, grpc) for member in route.members)


def _digest(text: str) -> str:
    """16 hex digits over everything that needs a reload: the file without hosts' server lines, and the Lua action."""
    kept = [row for row in text.splitlines() if OF_A_HOST not in row]
    # Every line has the same checks, so a change of the checks changes the file.
    return hashlib.sha256("\n".join([*kept, CHECKS, GATEWAY_CHECKS, AGENT, hold()]).encode()).hexdigest()[:16]
