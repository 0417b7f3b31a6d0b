"""Gateways behind balancers: TLS on the balancer, no way around it, and a gateway on every host of the pool."""

from collections.abc import Iterator

from deploy.inventory.fleet import Fleet
from deploy.refusals import Refusal, at, refuse
from deploy.spec import BalancerHost, Gateway, Host, Route
from deploy.topology.balancing import balancers_of, firewall_of, is_loopback
from deploy.validation.firewall import is_wide


def gateways_of_pools(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each mistake between the gateways of hosts and the ports of balancers that lead to them."""
    for balancer in fleet.balancers:
        for route in balancer.balancer.routes:
            if route.gateway_port:
                for problem in _of_route(route, balancer, fleet):
                    yield balancer.name, problem
    for host in fleet.hosts:
        if host.gateway and host.gateway.protection:
            yield from ((host.name, problem) for problem in _of_host(host, host.gateway, fleet))
    for pool in sorted({host.pool for host in fleet.hosts} - {""}):
        yield from _not_everywhere(pool, fleet)


def _of_route(route: Route, balancer: BalancerHost, fleet: Fleet) -> Iterator[Refusal]:
    place = _place(route.pool)
    if not balancer.balancer.certificate:
        yield refuse(
            "gateway-in-plain-text",
            f"port {route.gateway_port} leads to gateways without TLS: keys would travel in plain text",
            where=place,
            seen="no certificate",
            wanted="a certificate of the balancer",
            attempt='certificate="keys/edge.pem", certificate_key=Secret.command("cat", "keys/edge.key")',
        )
    lacking = [host.name for host in fleet.hosts if host.pool == route.pool and not _is_behind(host)]
    if lacking:
        yield refuse(
            "route-without-gateways",
            f"pool {route.pool} has hosts whose gateway is missing or not open to a balancer",
            where=place,
            seen=f'no Gateway(protection="balancer") on {", ".join(lacking)}',
            wanted="a gateway on every host of the pool, or no gateway_port",
            attempt='"gateway": Gateway(address="0.0.0.0", protection="balancer") in the data of the pool',
        )


def _of_host(host: Host, gateway: Gateway, fleet: Fleet) -> Iterator[Refusal]:
    if not _routes_to(host, fleet):
        pool = f"pool {host.pool}" if host.pool else "this host, which is in no pool"
        yield refuse(
            "protection-without-balancer",
            f'the gateway has protection="balancer", and no balancer leads to the gateways of {pool}',
            where="gateway.protection",
            seen="no Route with a gateway_port",
            wanted="a Balancer of the inventory with a gateway_port for the host's pool",
            attempt=f'Route(pool="{host.pool or "chat"}", …, gateway_port=443); or '
            'Gateway(address="127.0.0.1", protection="")',
        )
    elif is_loopback(gateway.address):
        yield refuse(
            "behind-loopback",
            f"the gateway listens on {gateway.address}, which no balancer can reach",
            where="gateway.address",
            seen=repr(gateway.address),
            wanted="an address of the host",
            attempt='Gateway(address="0.0.0.0", protection="balancer")',
        )
    firewall = firewall_of(host, fleet.balancers)
    if wide := [name for name in firewall.allow if is_wide(name)] if firewall else []:
        yield refuse(
            "balancer-not-named",
            'the gateway has protection="balancer", and the firewall admits whole networks, which bypass the balancer '
            "and its TLS",
            where="firewall.allow",
            seen=", ".join(wide),
            wanted="the addresses of other balancers one by one, or none: the inventory's own balancers are always "
            "admitted",
            attempt='allow=("10.0.0.5/32",), or no "firewall" for this host',
        )


def _not_everywhere(pool: str, fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """A refusal for each balancer of the pool that has no port for its gateways, since a host asks all equally."""
    routes = {
        balancer_host.name: route
        for balancer_host in fleet.balancers
        for route in balancer_host.balancer.routes
        if route.pool == pool
    }
    has = sorted(name for name, route in routes.items() if route.gateway_port)
    for name in sorted(set(routes) - set(has)) if has else ():
        problem = refuse(
            "gateway-on-one-balancer",
            f"{', '.join(has)} leads to the gateways of pool {pool}, and {name} does not",
            where=_place(pool),
            seen="gateway_port=0",
            wanted="a gateway_port on every balancer with a route to the pool",
            attempt="gateway_port=443",
        )
        yield name, problem


def _routes_to(host: Host, fleet: Fleet) -> list[BalancerHost]:
    """The balancers with a port for the gateways of the host's pool."""
    known = balancers_of(host, fleet.balancers)
    return [
        balancer_host
        for balancer_host in known
        if any(route.gateway_port for route in balancer_host.balancer.routes if route.pool == host.pool)
    ]


def _is_behind(host: Host) -> bool:
    return host.gateway is not None and host.gateway.protection == "balancer"


def _place(pool: str) -> str:
    return at("balancer", "routes", f'"{pool}"') + ".gateway_port"
