"""Balancers and their servers. Both sides use the same names, so that a host finds itself in the exporter's figures."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from deploy.catalog import SYSTEMS
from deploy.inventory.reach import ip_of
from deploy.inventory.ssh_config import in_brackets
from deploy.slices.gateway import GatewaySlice
from deploy.slices.traffic import (
    BalancerSlice,
    GatewayMemberSlice,
    GatewayRouteSlice,
    MemberSlice,
    RouteSlice,
    SeenBySlice,
    TrafficServerSlice,
    TrafficSlice,
)
from deploy.spec import BalancerHost, Firewall, Gateway, Host, Route, Server

LOOPBACK = "127.0.0.1"
SPARE_SECONDS = 60
"""Seconds a balancer waits beyond the longest answer of a gateway, so that the gateway reports the timeout."""


def traffic_slice(host: Host, balancers: Iterable[BalancerHost]) -> TrafficSlice:
    """The host's traffic service: its ports, and the balancers with a route to its pool, which it asks at a stop."""
    own_balancers = balancers_of(host, balancers)
    return TrafficSlice(
        address=address_of(host),
        ready_port=host.traffic.ready_port,
        agent_port=host.traffic.agent_port,
        drain_seconds=host.traffic.drain_seconds,
        heard_seconds=host.traffic.heard_seconds,
        balancers=tuple(
            SeenBySlice(
                name=balancer.name,
                metrics=f"http://{in_brackets(balancer.balancer.address)}:{balancer.balancer.metrics_port}/metrics",
            )
            for balancer in own_balancers
        ),
        servers=tuple(
            TrafficServerSlice(
                name=server.name,
                models=tuple(model.name for model in server.models),
                seen_as=(*_seen_as(host, server), *_gateway_seen_as(host, own_balancers)) if own_balancers else (),
            )
            for server in host.servers
        ),
    )


def balancer_slice(balancer: BalancerHost, hosts: Iterable[Host], balancers: Iterable[BalancerHost]) -> BalancerSlice:
    """A balancer's HAProxy: in each route a line for each server of the pool's hosts, by name.

    `balancers` are all of the fleet, including this one.
    """
    declared, known = balancer.balancer, sorted(hosts, key=lambda host: host.name)
    return BalancerSlice(
        host=balancer.name,
        os=declared.os,
        haproxy=SYSTEMS[declared.os].haproxy,
        address=declared.address,
        metrics_port=declared.metrics_port,
        certificate=declared.certificate,
        certificate_key=declared.certificate_key,
        routes=tuple(_route(route, known, _sharing(route, balancers)) for route in declared.routes),
        firewall=firewall_of_balancer(balancer, known),
        keys=declared.keys or "",
        clients=declared.clients,
        address_connections=declared.address_connections,
        address_requests=declared.address_requests,
        sharing=sum(balancer.balancer.keys is not None for balancer in balancers) or 1,
    )


def balancers_of(host: Host, balancers: Iterable[BalancerHost]) -> list[BalancerHost]:
    return [
        balancer
        for balancer in balancers
        if host.pool and any(route.pool == host.pool for route in balancer.balancer.routes)
    ]


def firewall_of(host: Host, balancers: Iterable[BalancerHost]) -> Firewall | None:
    """The host's firewall with its balancers allowed; a firewall that admits only balancers if just `protection`
    requires one."""
    behind = balancers_of(host, balancers)
    listeners: list[Server | Gateway] = [*host.servers, *([host.gateway] if host.gateway else [])]
    is_asked = any(listener.protection == "balancer" and not is_loopback(listener.address) for listener in listeners)
    if not behind or (host.firewall is None and not is_asked):
        return host.firewall
    declared = host.firewall or Firewall()
    return replace(declared, allow=_joined(declared.allow, (balancer.balancer.address for balancer in behind)))


def firewall_of_balancer(balancer: BalancerHost, hosts: Iterable[Host]) -> Firewall | None:
    """The balancer's firewall with the exporter open to the hosts behind it, which ask it at a stop."""
    declared = balancer.firewall
    if declared is None:
        return None
    asking = (address_of(host) for host in hosts if balancers_of(host, [balancer]))
    return replace(declared, metrics=_joined(declared.metrics or declared.allow, asking))


def address_of(host: Host) -> str:
    """The host's address for other hosts: the declared address, else a server's; loopback if no address is
    reachable."""
    candidates = [host.traffic.address, host.peer_address, *(server.address for server in host.servers)]
    return next((address for address in candidates if is_reachable(address)), LOOPBACK)


def backends(pool: str) -> tuple[str, str]:
    return f"{pool}_http", f"{pool}_grpc"


def gateway_backend(pool: str) -> str:
    return f"{pool}_gateway"


def gateway_line(host: Host, port: int) -> str:
    return f"{line_of(host.name)}.{port}"


def line_name(host: Host, server: Server) -> str:
    """The name of a host's server in HAProxy, without characters that HAProxy or its exporter would change."""
    return f"{line_of(host.name)}.{server.name}"


def line_of(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", host)


def held_in_flight(hosts: Iterable[Host], ports: int) -> int:
    """Held requests that each of this many ports, over all balancers, sends on at once: 1 or more.

    All of them may be for the same model of the first ready host. So they fill at most half of the smallest queue of
    any model; the other half is for new requests.
    """
    queues = [model.max_queue_size for host in hosts for _, model in host.served_models]
    return max(1, min(queues, default=0) // 2 // ports)


def _sharing(route: Route, balancers: Iterable[BalancerHost]) -> int:
    """Number of ports, over all balancers, that lead to the route's pool."""
    routes = [target for balancer in balancers for target in balancer.balancer.routes if target.pool == route.pool]
    return sum(3 if declared.gateway_port else 2 for declared in routes)


def _seen_as(host: Host, server: Server) -> list[str]:
    return [f"{backend}/{line_name(host, server)}" for backend in backends(host.pool)]


def _gateway_seen_as(host: Host, own: Iterable[BalancerHost]) -> list[str]:
    """Lines of the gateway's processes, if they have only this server, so that requests avoid them while it drains.

    A gateway of several servers continues with the others, so its processes are left out.
    """
    is_routed = any(
        route.gateway_port and route.pool == host.pool for balancer in own for route in balancer.balancer.routes
    )
    if not is_routed or host.gateway is None or len(host.servers) != 1:
        return []
    return [f"{gateway_backend(host.pool)}/{gateway_line(host, port)}" for port in host.gateway.ports]


def answer_seconds(gateway: Gateway | GatewaySlice) -> int:
    """Most seconds of a gateway's answer; the gateway aborts a longer answer."""
    return gateway.limits.request_seconds + gateway.hold_seconds + SPARE_SECONDS


def _gateway_route(route: Route, hosts: Iterable[Host]) -> GatewayRouteSlice | None:
    if not route.gateway_port:
        return None
    gateways = [(host, host.gateway) for host in hosts if host.pool == route.pool and host.gateway]
    longest = (answer_seconds(gateway) for _host, gateway in gateways)
    return GatewayRouteSlice(
        port=route.gateway_port,
        answer_seconds=max(longest, default=0),
        members=tuple(
            GatewayMemberSlice(
                name=gateway_line(host, port),
                question=",".join(server.name for server in host.servers),
                address=gateway.address if is_reachable(gateway.address) else address_of(host),
                port=port,
                agent_address=address_of(host),
                agent_port=host.traffic.agent_port,
            )
            for host, gateway in gateways
            for port in gateway.ports
        ),
    )


def _route(route: Route, hosts: Sequence[Host], ports: int) -> RouteSlice:
    members = tuple(
        MemberSlice(
            name=line_name(host, server),
            server=server.name,
            address=server.address if is_reachable(server.address) else address_of(host),
            http_port=server.http_port,
            grpc_port=server.grpc_port,
            agent_address=address_of(host),
            agent_port=host.traffic.agent_port,
            models=tuple(model.name for model in server.in_triton),
        )
        for host in hosts
        if host.pool == route.pool
        for server in host.servers
    )
    return RouteSlice(
        pool=route.pool,
        http_port=route.http_port,
        grpc_port=route.grpc_port,
        hold_seconds=route.hold_seconds,
        held_in_flight=held_in_flight((host for host in hosts if host.pool == route.pool), ports),
        members=members,
        gateway=_gateway_route(route, hosts),
    )


BROADCAST = "255.255.255.255"


def is_reachable(address: str) -> bool:
    """True for an address to which other hosts can connect; false for loopback, multicast, broadcast and no address."""
    if (parsed := ip_of(address)) is None:
        return False
    is_of_nobody = parsed.is_unspecified or parsed.is_multicast or address == BROADCAST
    return not (is_of_nobody or parsed.is_loopback or "%" in address)


def is_loopback(address: str) -> bool:
    """True for a loopback address, and for text that is not an address, which another check refuses."""
    parsed = ip_of(address)
    return parsed is None or parsed.is_loopback


def _joined(networks: tuple[str, ...], addresses: Iterable[str]) -> tuple[str, ...]:
    """The networks, and each address as a network, without duplicates."""
    alone = [str(ipaddress.ip_network(address)) for address in addresses if is_reachable(address)]
    return tuple(dict.fromkeys([*networks, *alone]))
