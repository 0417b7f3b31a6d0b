"""Balancers and the pools behind them: ports, addresses, certificates, and hosts that can replace each other."""

from collections.abc import Iterator

from deploy.catalog import HAPROXY_FLOOR, SYSTEMS
from deploy.catalog.names import offer
from deploy.catalog.versions import at_least
from deploy.inventory.fleet import Fleet
from deploy.inventory.reach import ip_of
from deploy.refusals import Refusal, at, refuse, server_at
from deploy.spec import Balancer, BalancerHost, Host, Route, Server
from deploy.spec.surroundings import Surroundings
from deploy.topology.balancing import address_of, is_reachable
from deploy.topology.groups import pools_of_hosts
from deploy.topology.waves import Pool
from deploy.validation.addresses import equal_addresses, no_address, support_address
from deploy.validation.certificates import certificate_problems
from deploy.validation.firewall import declared_problems
from deploy.validation.gateways_of_pools import gateways_of_pools
from deploy.validation.paths import balancer_path_problems
from deploy.validation.ports import free_port
from deploy.validation.proxies import declared_proxy_problems
from deploy.validation.secrets import named_secret


def balancer_problems(fleet: Fleet, surroundings: Surroundings) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each mistake in a balancer, and in a pool that has a route."""
    for balancer in fleet.balancers:
        for problem in _of_balancer(balancer, fleet, surroundings):
            yield balancer.name, problem
    yield from gateways_of_pools(fleet)
    routed = {route.pool for balancer in fleet.balancers for route in balancer.balancer.routes}
    for pool in sorted(routed):
        hosts = [host for host in fleet.hosts if host.pool == pool]
        yield from _other_models(pool, hosts)
        yield from equal_addresses(hosts, "are in one pool and have the same address")
        yield from ((host.name, problem) for host in hosts for problem in _out_of_reach(host))


def _of_balancer(balancer: BalancerHost, fleet: Fleet, surroundings: Surroundings) -> Iterator[Refusal]:
    declared = balancer.balancer
    yield from _system(declared)
    yield from support_address("balancer", declared.address)
    yield from _ports(declared)
    pools = {pool.name: pool for pool in pools_of_hosts(fleet.hosts, fleet.rollout)}
    for route in declared.routes:
        yield from _route(route, declared, pools.get(route.pool), fleet)
    yield from certificate_problems(declared, surroundings)
    yield from balancer_path_problems(declared)
    if declared.certificate_key is not None:
        yield from named_secret("balancer.certificate_key", declared.certificate_key, "EDGE_KEY")
    if balancer.proxy is not None:
        yield from declared_proxy_problems(balancer.proxy)
    if balancer.firewall is not None:
        yield from declared_problems(balancer.firewall, {port: place for place, port in _places(declared)})


def _system(declared: Balancer) -> Iterator[Refusal]:
    fit = [name for name, system in SYSTEMS.items() if at_least(system.haproxy, HAPROXY_FLOOR)]
    if declared.os not in SYSTEMS:
        yield refuse(
            "unknown-os",
            f"no balancer is set up on {declared.os!r}",
            where="balancer.os",
            seen=repr(declared.os),
            wanted=", ".join(sorted(fit)),
            attempt=offer(declared.os, sorted(fit)),
        )
    elif declared.os not in fit:
        yield refuse(
            "haproxy-too-old",
            f"HAProxy {SYSTEMS[declared.os].haproxy} of {declared.os} cannot check a host that is added while it runs",
            where="balancer.os",
            seen=f"{declared.os}, which has HAProxy {SYSTEMS[declared.os].haproxy}",
            wanted=f"HAProxy {HAPROXY_FLOOR} or newer: {', '.join(sorted(fit))}",
            attempt='Balancer(os="debian-12", …)',
        )


def _places(declared: Balancer) -> list[tuple[str, int]]:
    """(place in the balancer's data, port) of all its listeners."""
    routes = [
        (f'balancer.routes["{route.pool}"].{field}', getattr(route, field))
        for route in declared.routes
        for field in ("http_port", "grpc_port", *(["gateway_port"] if route.gateway_port else []))
    ]
    return [*routes, ("balancer.metrics_port", declared.metrics_port)]


def _ports(declared: Balancer) -> Iterator[Refusal]:
    if not declared.routes:
        yield refuse(
            "no-routes",
            "the balancer has no routes, so it forwards no request",
            where="balancer.routes",
            seen="()",
            wanted="one Route or more",
            attempt='routes=(Route(pool="chat", http_port=8080, grpc_port=8081),)',
        )
    first: dict[int, str] = {}
    for place, port in _places(declared):
        if port == 22:
            yield refuse(
                "port-twice",
                "port 22 belongs to SSH, which deploys this balancer",
                where=place,
                seen="22",
                wanted="a port that no other program uses",
                attempt=f"{place.rpartition('.')[2]}=8080",
            )
        elif port in first:
            free = free_port(dict(_places(declared)).values(), port + 1)
            yield refuse(
                "port-twice",
                f"port {port} is used twice on one balancer",
                where=place,
                seen=f"{port}, also {first[port]}",
                wanted="a port of its own for each route, HTTP and gRPC, and one for metrics",
                attempt=f"{place.rpartition('.')[2]}={free}",
            )
        first.setdefault(port, place)
    pools = [route.pool for route in declared.routes]
    for pool in sorted({pool for pool in pools if pools.count(pool) > 1}):
        yield refuse(
            "pool-routed-twice",
            f"pool {pool} has {pools.count(pool)} routes on one balancer",
            where=at("balancer", "routes", f'"{pool}"'),
            seen=f"{pools.count(pool)} routes",
            wanted="one route for each pool: a backend is named after its pool",
            attempt="take one of them out",
        )


def _route(route: Route, declared: Balancer, pool: Pool | None, fleet: Fleet) -> Iterator[Refusal]:
    place = at("balancer", "routes", f'"{route.pool}"')
    if pool is None or not pool.name:
        known = sorted({host.pool for host in fleet.hosts} - {""})
        free = [name for name in known if name not in {routed.pool for routed in declared.routes}]
        yield refuse(
            "route-without-hosts",
            f"pool {route.pool} has no hosts, so its route leads nowhere",
            where=place,
            seen=f"pools {', '.join(known)}" if known else "no host with a pool",
            wanted="a pool that a host names",
            attempt=offer(route.pool, free) if free else f'"pool": "{route.pool}" in the data of the hosts',
        )
    elif pool.wave >= len(pool.units) and not route.hold_seconds and not fleet.rollout.interrupt:
        whole = (
            "one host, whose clients would get 503 during its update"
            if len(pool.units) == 1
            else f"{len(pool.units)} hosts, all of which may be updated at once: clients would get 503 meanwhile"
        )
        fewer = "" if len(pool.units) == 1 else f"; or Rollout(max_unavailable={len(pool.units) - 1})"
        yield refuse(
            "nobody-left",
            f"pool {route.pool} has {whole}",
            where=f"{place}.hold_seconds",
            seen=f"hold_seconds=0; hosts of the pool that a wave may take out: {len(pool.units)} of {len(pool.units)}",
            wanted="requests that wait at the balancer, or permission to interrupt clients",
            attempt=f"hold_seconds=300, longer than the models take to load{fewer}; or Rollout(interrupt=True)",
        )


def _other_models(pool: str, hosts: list[Host]) -> Iterator[tuple[str, Refusal]]:
    """A refusal for each server whose models differ from the pool's first server: a request may reach any server."""
    servers = [(host.name, server) for host in hosts for server in host.servers]
    if not servers:
        return
    first_host, first = servers[0]
    for name, server in servers[1:]:
        if _names(server) != _names(first):
            yield (
                name,
                refuse(
                    "pool-of-several-kinds",
                    f"pool {pool} has servers with different models, and its route may send a request to any server",
                    where=server_at(server.name, "models"),
                    seen=f"{', '.join(_names(server))}; server {first.name} of {first_host} has "
                    f"{', '.join(_names(first))}",
                    wanted="the same models in every server of a pool",
                    attempt="a pool for each set of models, with a route of its own",
                ),
            )


def _names(server: Server) -> list[str]:
    return sorted(model.name for model in server.models)


def _out_of_reach(host: Host) -> Iterator[Refusal]:
    """A refusal for each server at an address that no balancer can reach."""
    for server in host.servers:
        if (address := ip_of(server.address)) and address.is_loopback:
            yield refuse(
                "behind-loopback",
                f"server {server.name} listens on {server.address}, which no balancer can reach",
                where=server_at(server.name, "address"),
                seen=f"{server.address!r}, and a balancer with a route to pool {host.pool}",
                wanted='an address of the host, or "0.0.0.0" with a peer_address',
                attempt='address="0.0.0.0", protection="balancer"',
            )
    if not is_reachable(address_of(host)):
        problem = f"pool {host.pool}: the host declares no address at which a balancer reaches it"
        yield no_address(host, problem, "the balancers")
