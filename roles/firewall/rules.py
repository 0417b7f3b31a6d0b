"""The declared firewall as a file of nftables. Pure: the same slice and SSH ports give the same bytes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from deploy.slices.container import CONTAINER_UID
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.monitor import ExportersSlice, MonitorSlice
from deploy.slices.sharing import SharingSlice
from deploy.slices.traffic import BalancerSlice, TrafficSlice
from deploy.spec import Firewall, Https
from deploy.topology.gateway import ACME_PORT
from roles._shipping.templates import template

BRIDGE = "enginehouse0"
"""The bridge of Triton's containers (files/shell/prepare.sh)."""


class Networks(NamedTuple):
    """Networks of one group, without overlaps in either family, because nftables refuses overlaps in a set."""

    v4: list[str]
    v6: list[str]

    @classmethod
    def of(cls, written: Iterable[str]) -> Networks:
        """The networks, sorted and merged."""
        networks = [ipaddress.ip_network(address) for address in written]
        v4 = ipaddress.collapse_addresses(network for network in networks if isinstance(network, ipaddress.IPv4Network))
        v6 = ipaddress.collapse_addresses(network for network in networks if isinstance(network, ipaddress.IPv6Network))
        return cls([str(network) for network in v4], [str(network) for network in v6])


Guarded: TypeAlias = Slice | BalancerSlice | MonitorSlice


def firewall_of(mine: Guarded) -> Firewall | None:
    """The declared firewall; without rules for servers if only ports for other hosts must be closed."""
    if mine.firewall or not (mine.exporters or isinstance(mine, MonitorSlice) or _gateways(mine) or _sharing(mine)):
        return mine.firewall
    return Firewall()


def _gateways(mine: Guarded) -> tuple[str, ...]:
    """The hosts whose gateways send to this host."""
    mutual = mine.mutual if isinstance(mine, Slice) else None
    return tuple(gateway.address for gateway in mutual.gateways) if mutual else ()


def _sharing(mine: Guarded) -> SharingSlice | None:
    return mine.sharing if isinstance(mine, Slice) else None


def _https(mine: Guarded) -> Https | None:
    return mine.https if isinstance(mine, Slice) else None


def rules(mine: Guarded, ssh_ports: Iterable[int]) -> str:
    """The file of nftables; `ssh_ports` are the ports of this host's sshd."""
    firewall = firewall_of(mine)
    assert firewall, "there is nothing to guard"
    groups = _groups(firewall, mine)
    return template("firewall", "enginehouse.nft.j2").render(
        bridge=BRIDGE,
        groups=groups,
        ssh_ports=sorted(ssh_ports),
        published=[row for row in _published_by(mine) if row[1] in groups],
        openings=[*_openings_of_ranks(mine), *_openings_of_https(mine), *_openings(firewall)],
        ranks=_ranks(mine),
        ranks_user=CONTAINER_UID,
        closed=firewall.rest == "closed",
    )


def _groups(firewall: Firewall, mine: Guarded) -> dict[str, Networks]:
    """Networks that may connect, by the chain's name; a group that is open to all is absent."""
    named = {"monitors": mine.exporters.monitors if mine.exporters else ()}
    named |= {"readers": mine.readers if isinstance(mine, MonitorSlice) else ()}
    https = _https(mine)
    named |= {"gateways": _gateways(mine), "https": https.allow if https else ()}
    shared = _sharing(mine)
    named |= {"peers": shared.addresses if shared else ()}
    named |= {"servers": firewall.allow, "metrics": firewall.metrics or firewall.allow, "ssh": firewall.ssh}
    named |= {f"open{number}": opening.sources for number, opening in enumerate(firewall.open)}
    return {name: Networks.of(written) for name, written in named.items() if written}


def _published_by(mine: Guarded) -> list[tuple[str, str]]:
    """(match for a connection to one of our ports, its group); a group without networks stays open."""
    rows = _of_exporters(mine.exporters) if mine.exporters else []
    if isinstance(mine, MonitorSlice):
        return [*rows, *_of_monitor(mine)]
    return [*(_of_balancer(mine) if isinstance(mine, BalancerSlice) else _of_host(mine)), *rows]


def _of_exporters(exporters: ExportersSlice) -> list[tuple[str, str]]:
    return [(f"{_to(exporters.address)}tcp dport {exporters.port}", "monitors")]


def _of_monitor(mine: MonitorSlice) -> list[tuple[str, str]]:
    if ipaddress.ip_address(mine.listen).is_loopback:
        return []
    return [(f"{_to(mine.listen)}tcp dport {{ {mine.prometheus_port}, {mine.alertmanager_port} }}", "readers")]


def _to(address: str) -> str:
    """The beginning of a rule for only this address; empty for every address of the host."""
    there = ipaddress.ip_address(address)
    return "" if there.is_unspecified else f"{'ip' if there.version == 4 else 'ip6'} daddr {there} "


def _of_host(mine: Slice) -> list[tuple[str, str]]:
    """(match for connections to this project's ports, group) of a host with servers."""
    rows = [row for server in mine.servers for row in _published(server)]
    rows += _gateway(mine.gateway) if mine.gateway else []
    if mine.mutual and mine.mutual.port:
        rows.append((f"{_to(mine.mutual.address)}tcp dport {mine.mutual.port}", "gateways"))
    if mine.https and mine.https.allow:
        rows.append((f"{_to(mine.https.address)}tcp dport {mine.https.port}", "https"))
    if mine.sharing:
        ports = ", ".join(str(port) for port in mine.sharing.ports)
        rows.append((f"{_to(mine.sharing.address)}tcp dport {{ {ports} }}", "peers"))
    return [*rows, *(_answers(mine.traffic) if mine.traffic and mine.traffic.servers else [])]


def _gateway(gateway: GatewaySlice) -> list[tuple[str, str]]:
    """(match, group) for the processes of a gateway that listens for a balancer."""
    if ipaddress.ip_address(gateway.address).is_loopback:
        return []
    return [(f"{_to(gateway.address)}tcp dport {{ {', '.join(str(port) for port in gateway.ports)} }}", "servers")]


def _of_balancer(mine: BalancerSlice) -> list[tuple[str, str]]:
    """(match, group) for a balancer's ports, at any address of its host, because another balancer may share an
    address."""
    gateways = [route.gateway.port for route in mine.routes if route.gateway]
    own = [port for route in mine.routes for port in (route.http_port, route.grpc_port)]
    ports = ", ".join(str(port) for port in [*own, *gateways])
    return [(f"tcp dport {{ {ports} }}", "servers"), (f"tcp dport {mine.metrics_port}", "metrics")]


def _answers(traffic: TrafficSlice) -> list[tuple[str, str]]:
    """(match, group) for the readiness ports: open to every host that may send requests."""
    address = ipaddress.ip_address(traffic.address)
    if address.is_loopback:
        return []
    return [(f"{_to(traffic.address)}tcp dport {{ {traffic.ready_port}, {traffic.agent_port} }}", "servers")]


def _published(server: ServerSlice) -> list[tuple[str, str]]:
    """(match for connections to the server, group); a loopback address cannot be reached from outside."""
    if ipaddress.ip_address(server.address).is_loopback:
        return []
    to = _to(server.address)
    clients = f"{to}tcp dport {{ {server.http_port}, {server.grpc_port} }}"
    return [(clients, "servers"), (f"{to}tcp dport {server.metrics_port}", "metrics")]


def _ranks(mine: Guarded) -> Networks | None:
    """The other hosts of the group, the only ones that the ranks of this host talk to; None without a group."""
    if not isinstance(mine, Slice):
        return None
    groups = [server.standalone_llm[1].group for server in mine.servers if server.standalone_llm]
    addresses = [member.address for group in groups if group for member in group.others]
    return Networks.of(addresses) if addresses else None


def _openings_of_ranks(mine: Guarded) -> list[tuple[str, str]]:
    """Openings of every port for the hosts of the group, because ranks choose their ports as they start."""
    ranks = _ranks(mine)
    families = (("ip", ranks.v4), ("ip6", ranks.v6)) if ranks else ()
    return [(f"{family} saddr {{ {', '.join(networks)} }}", "accept") for family, networks in families if networks]


def _openings_of_https(mine: Guarded) -> list[tuple[str, str]]:
    """Ports open to all: HTTPS without named networks, and port 80 for the authority's challenge."""
    https = _https(mine)
    if https is None:
        return []
    own = [] if https.allow else [(f"{_to(https.address)}tcp dport {https.port}", "accept")]
    return [*own, *([(f"tcp dport {ACME_PORT}", "accept")] if https.acme else [])]


def _openings(firewall: Firewall) -> list[tuple[str, str]]:
    return [
        (f"{opening.protocol} dport {opening.port}", f"jump open{number}" if opening.sources else "accept")
        for number, opening in enumerate(firewall.open)
    ]
