"""Proxies of hosts: the places that each host reaches without its proxy."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from deploy.inventory.fleet import Fleet
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.proxy import ProxySlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import BalancerHost, Host, MonitorHost, Proxy
from deploy.topology.balancing import address_of, is_reachable

HERE = ("localhost", "127.0.0.1", "::1")


S = TypeVar("S", Slice, BalancerSlice, MonitorSlice)


def with_proxies(
    slices: Iterable[S], declared: Iterable[Host | BalancerHost | MonitorHost], fleet: Fleet
) -> tuple[S, ...]:
    """The slices with the proxies of their hosts."""
    proxies = {host.name: proxy_slice(host.proxy, fleet.hosts, fleet.balancers, fleet.monitors) for host in declared}
    return tuple(replace(slice_, proxy=proxies[slice_.host]) for slice_ in slices)


def proxy_slice(
    proxy: Proxy | None,
    hosts: Iterable[Host],
    balancers: Iterable[BalancerHost] = (),
    monitors: Iterable[MonitorHost] = (),
) -> ProxySlice | None:
    """The proxy with all places that are reached without it: loopback, the declared ones, and the fleet's hosts."""
    if proxy is None:
        return None
    addresses = [address_of(host) for host in hosts] + [host.peer_address for host in hosts]
    addresses += [balancer.balancer.address for balancer in balancers]
    addresses += [monitor.monitor.address for monitor in monitors]
    names = {address for address in addresses if address and (is_reachable(address) or not _is_address(address))}
    return ProxySlice(
        url=proxy.url.rstrip("/"),
        username=proxy.username,
        password=proxy.password,
        direct=(*HERE, *dict.fromkeys(proxy.direct)),
        fleet=tuple(sorted(names - set(proxy.direct))),
    )


def _is_address(text: str) -> bool:
    return text.replace(".", "").isdecimal() or ":" in text
