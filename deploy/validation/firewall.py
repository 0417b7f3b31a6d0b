"""The declared firewall: valid networks and ports, and at least one rule."""

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

from deploy.refusals import Refusal, refuse, server_at
from deploy.spec import BalancerHost, Firewall, Host, Opening, Server
from deploy.topology.balancing import balancers_of, firewall_of, is_loopback
from deploy.topology.groups import group_of

MOST_ADDRESSES, MOST_ADDRESSES_OF_IPV6 = 2**25, 2**112
"""Most public addresses of one organisation: no registry assigned more than a few /8, or a /19 of IPv6."""
SSH_PORT = 22


def firewall_problems(host: Host, balancers: Iterable[BalancerHost] = ()) -> Iterator[Refusal]:
    """A refusal for each mistake in a host's firewall, and for each public server that relies on a missing firewall."""
    known = list(balancers)
    wanted = firewall_of(host, known)
    for server in host.servers:
        yield from _protected(server, host, wanted, is_routed=bool(balancers_of(host, known)))
    served = {
        getattr(server, f"{kind}_port"): f"server {server.name}"
        for server in host.servers
        for kind in ("http", "grpc", "metrics")
    }
    if host.gateway and is_loopback(host.gateway.address):
        served |= dict.fromkeys(host.gateway.ports, "the gateway, which listens only on loopback")
    https = host.gateway.https if host.gateway else None
    if https:
        served[https.port] = "HTTPS of the gateway"
    if host.firewall is not None and wanted is not None:
        # `allow` may be empty if clients reach no server: in a group, or behind HTTPS on the host itself.
        is_alone = bool(group_of(host)) or (https is not None and wanted.rest == "closed")
        is_alone = is_alone or bool(wanted.ssh) or wanted.rest == "closed"
        needs_clients = not is_alone or not all(is_loopback(server.address) for server in host.servers)
        yield from declared_problems(wanted, served, needs_clients, is_https=https is not None)


def declared_problems(
    firewall: Firewall, served: Mapping[int, str], needs_clients: bool = True, is_https: bool = False
) -> Iterator[Refusal]:
    """A refusal for each mistake in a firewall; `served` names the program of this project on each port."""
    yield from _networks(firewall)
    if needs_clients and not firewall.allow:
        yield refuse(
            "firewall-allows-nobody",
            "the firewall admits no client to the servers",
            where="firewall.allow",
            seen="()",
            wanted="the networks of the clients or the balancer",
            attempt='Firewall(rest="closed"): clients reach HTTPS and no other port'
            if is_https
            else 'allow=("10.0.0.0/8",); a server for only this host has address="127.0.0.1"',
        )
    yield from _openings(firewall, served)
    if firewall.open and firewall.rest == "untouched":
        yield refuse(
            "openings-of-an-open-host",
            'firewall.open has no effect: without rest="closed" the firewall does not filter other ports',
            where="firewall.open",
            seen='rest="untouched"',
            wanted='rest="closed", or no openings',
            attempt='Firewall(…, rest="closed")',
        )


def _protected(server: Server, host: Host, firewall: Firewall | None, is_routed: bool) -> Iterator[Refusal]:
    """A refusal if neither a firewall nor a balancer enforces the declared `protection`.

    A Firewall covers HTTP, gRPC and metrics of every server of its host (roles/firewall/rules.py), so a declared
    Firewall is enough for "firewall". "balancer" needs a Balancer of the inventory with a route to the host's pool, and
    no whole network of clients beside it. A balancer outside the inventory is an address like any other: "firewall".
    """
    if not server.protection or is_loopback(server.address):
        return
    if server.protection == "balancer" and not is_routed:
        yield _no_balancer(server, host)
    elif firewall is None:
        ports = f"{server.http_port}, {server.grpc_port} and {server.metrics_port}"
        yield refuse(
            "protection-without-firewall",
            f'server {server.name}: protection="{server.protection}" is declared, but no firewall restricts '
            f"{server.address}",
            where=server_at(server.name, "protection"),
            seen=f"{server.protection!r}, and no firewall on this host",
            wanted=f"a Firewall of this host, which covers ports {ports}; its `allow` holds the clients' networks",
            attempt='"firewall": Firewall(allow=("10.0.0.0/8",)); or address="127.0.0.1"',
        )
    elif server.protection == "balancer" and (wide := [name for name in firewall.allow if is_wide(name)]):
        yield refuse(
            "balancer-not-named",
            f'server {server.name} has protection="balancer", and the firewall also admits whole networks, which '
            "bypass the balancer",
            where="firewall.allow",
            seen=", ".join(wide),
            wanted="the addresses from which the balancer connects, one by one: a /32 each, or a /128 for IPv6",
            attempt='allow=("10.0.0.5/32", "10.0.0.6/32"); where clients come themselves, protection="firewall"',
        )


def _no_balancer(server: Server, host: Host) -> Refusal:
    pool = f"no balancer has a route to pool {host.pool}" if host.pool else "this host is in no pool"
    own = "" if host.pool else '"pool": "chat", and '
    ours = f'{own}Balancer(…, routes=(Route(pool="{host.pool or "chat"}", http_port=8080, grpc_port=8081),))'
    allowed = ", ".join(host.firewall.allow) if host.firewall else ""
    elsewhere = '"firewall": Firewall(allow=("10.0.0.9/32",))'
    return refuse(
        "protection-without-balancer",
        f'server {server.name} has protection="balancer", and no balancer leads to the server',
        where=server_at(server.name, "protection"),
        seen=f"{pool}, and the host " + (f"lets in {allowed}" if allowed else "has no firewall"),
        wanted="a Balancer of this inventory that routes the host's pool; "
        'for a balancer outside the inventory, protection="firewall" and its addresses',
        attempt=f'protection="firewall"; or {ours}' if allowed else f'{ours}; or protection="firewall", {elsewhere}',
    )


def is_wide(written: str) -> bool:
    """True for a network of more than one address; another check refuses text that is not a network."""
    network = _parsed(written)
    return network is not None and network.num_addresses > 1


def _networks(firewall: Firewall) -> Iterator[Refusal]:
    lists = {"allow": firewall.allow, "metrics": firewall.metrics, "ssh": firewall.ssh}
    lists |= {f"open[{number}].sources": rule.sources for number, rule in enumerate(firewall.open)}
    for name, networks in lists.items():
        for written in networks:
            yield from _network(written, f"firewall.{name}")
    for name in ("allow", "metrics"):
        yield from _everybody(lists[name], f"firewall.{name}", "Triton")


def bad_networks(networks: tuple[str, ...], where: str) -> Iterator[Refusal]:
    for written in networks:
        yield from _network(written, where)


def network_problems(networks: tuple[str, ...], where: str, who: str) -> Iterator[Refusal]:
    """A refusal for each text that is not a network, and for networks of all addresses; `who` names the exposed
    service."""
    yield from bad_networks(networks, where)
    yield from _everybody(networks, where, who)


def _network(written: str, where: str) -> Iterator[Refusal]:
    try:
        network = ipaddress.ip_network(written)
        is_nobody = network.is_unspecified and network.prefixlen == network.max_prefixlen
        if is_nobody or network.is_multicast or network.is_loopback or (network.is_reserved and network.version == 4):
            yield refuse(
                "network-of-nobody",
                f"no client connects from {written}",
                where=where,
                seen=f"{written!r}, which is {_use_of(network)}",
                wanted="networks of clients, balancers or operators; connections of the host to itself are always open",
                attempt=_instead(where) if is_nobody else '"10.0.0.0/8"',
            )
    except ValueError as error:
        yield refuse(
            "bad-network",
            f"{written!r} is not a network",
            where=where,
            seen=f"{written!r}: {error}",
            wanted="a CIDR whose host bits are zero, such as 10.0.0.0/8 or fd00::/8; not a name",
            attempt=f'"{_nearest(written)}"',
        )


def _instead(where: str) -> str:
    """The text to type for 0.0.0.0: without any network, an opening and SSH are open to everybody."""
    name = where.rpartition(".")[2]
    return f"leave {name} out, if everybody is meant" if name in ("sources", "ssh") else '"10.0.0.0/8"'


def _use_of(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    if network.is_unspecified:
        return "one address, of no host; a program that listens there listens on all of its own"
    return "for groups (multicast)" if network.is_multicast else "loopback" if network.is_loopback else "reserved"


def _nearest(written: str) -> str:
    """The network that a text with an address, a range or stars probably means; else an example."""
    text = written.strip()
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_network(text, strict=False))
    with contextlib.suppress(ValueError):
        first, _, last = text.partition("-")
        ends = ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
        return '", "'.join(map(str, ipaddress.summarize_address_range(*ends)))
    parts = [part for part in re.split(r"[./]", text) if part not in ("*", "x", "")]
    if re.fullmatch(r"[0-9.]+\.(?:\*|x)(?:\.(?:\*|x))*\.?", text) and 1 <= len(parts) <= 3:
        return f"{'.'.join([*parts, *['0'] * (4 - len(parts))])}/{8 * len(parts)}"
    address, slash, _ = text.partition("/")
    if with_port := re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):[0-9]{1,5}", text):
        address, slash = with_port[1] or with_port[2], ""
    with contextlib.suppress(ValueError):
        known = ipaddress.ip_address(address.strip("[]"))
        return f"{known}/{known.max_prefixlen}" if slash else str(known)
    return "10.0.0.0/8"


def _everybody(networks: tuple[str, ...], where: str, who: str) -> Iterator[Refusal]:
    """A refusal for networks that cover all addresses, each or together: ("0.0.0.0/1", "128.0.0.0/1") is all of
    IPv4."""
    wide = [written for written in networks if _is_everybody(written)]
    if not wide and not _is_everybody_joined(networks):
        return
    shown = " and ".join(wide) or f"these {len(networks)} networks together"
    yield refuse(
        "firewall-allows-everybody",
        f"{shown} {'cover' if len(wide) != 1 else 'covers'} everybody, and {who} has no authentication",
        where=where,
        seen=", ".join(map(repr, wide or networks[:4])) + (", …" if not wide and len(networks) > 4 else ""),
        wanted="the networks of the clients or the balancer",
        attempt='"10.0.0.0/8"',
    )


def _is_everybody(written: str) -> bool:
    """True for a network larger than any organisation has: 10.0.0.0/8 and fc00::/7 are the widest private networks."""
    network = _parsed(written)
    return network is not None and network.prefixlen < (8 if network.version == 4 else 7)


def _is_everybody_joined(networks: tuple[str, ...]) -> bool:
    """True for networks that together have more public addresses than any organisation: two /8, or a /16 of IPv6."""
    known = [network for network in map(_parsed, networks) if network and not network.is_private]
    fourth = [network for network in known if isinstance(network, ipaddress.IPv4Network)]
    sixth = [network for network in known if isinstance(network, ipaddress.IPv6Network)]
    return (
        sum(network.num_addresses for network in ipaddress.collapse_addresses(fourth)) > MOST_ADDRESSES
        or sum(network.num_addresses for network in ipaddress.collapse_addresses(sixth)) > MOST_ADDRESSES_OF_IPV6
    )


def _parsed(written: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(written)
    except ValueError:
        return None


def _ssh_alone(firewall: Firewall, opening: Opening) -> str:
    """The firewall with the opening's networks in `ssh`, and without the opening."""
    networks = tuple(dict.fromkeys((*firewall.ssh, *opening.sources)))
    written = ", ".join(f'"{network}"' for network in networks) + ("," if len(networks) == 1 else "")
    kept = "" if len(firewall.open) > 1 else "open=(), "
    return f"Firewall(…, {kept}ssh=({written}))" + (" without this Opening" if len(firewall.open) > 1 else "")


def _openings(firewall: Firewall, served: Mapping[int, str]) -> Iterator[Refusal]:
    for number, opening in enumerate(firewall.open):
        where = f"firewall.open[{number}].port"
        if opening.port == SSH_PORT and opening.protocol == "tcp":
            yield refuse(
                "opening-of-ssh",
                "firewall.ssh opens SSH, and an Opening of port 22 does not restrict it",
                where=where,
                seen=f"port 22, sources={opening.sources}, firewall.ssh={firewall.ssh}",
                wanted="the networks of operators, in firewall.ssh; without them, everybody reaches SSH",
                attempt=_ssh_alone(firewall, opening),
            )
        elif opening.port in served and opening.protocol == "tcp":
            yield refuse(
                "port-of-a-server",
                f"port {opening.port} belongs to {served[opening.port]}, whose clients other settings declare",
                where=where,
                seen=str(opening.port),
                wanted="ports of other services; SSH is always open",
                attempt="take it out, and put HTTPS before the gateway: Gateway(https=Https(…))"
                if "loopback" in served[opening.port]
                else "list the clients of a server in firewall.allow and firewall.metrics",
            )
    ports = {(opening.port, opening.protocol) for opening in firewall.open if not opening.sources}
    for number, opening in enumerate(firewall.open):
        if opening.sources and (opening.port, opening.protocol) in ports:
            yield refuse(
                "opening-twice",
                f"port {opening.port} is open to {', '.join(opening.sources)} by one Opening, and to all by another",
                where=f"firewall.open[{number}].sources",
                seen=f"two Openings of port {opening.port}, one without sources",
                wanted="one Opening for a port and a protocol: the wider one holds",
                attempt=f"take the Opening of port {opening.port} without sources out",
            )
