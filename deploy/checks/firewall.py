"""The declared firewall: networks that are networks, ports that are ports, and something it does."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.refuse import refuse, server_at
from deploy.spec import Firewall, Host, Server

CONFIRM_SECONDS = (10, 600)


def firewall_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in a host's firewall, and for each public server that relies on a missing firewall."""
    for server in host.servers:
        yield from _protected(server, host.firewall)
    if host.firewall is None:
        return
    yield from _networks(host.firewall)
    if not host.firewall.allow:
        yield refuse(
            "firewall-allows-nobody",
            "the firewall lets nobody reach the servers",
            where="firewall.allow",
            seen="()",
            wanted="the networks of the clients or the balancer",
            attempt='allow=("10.0.0.0/8",); a server for this host alone has address="127.0.0.1"',
        )
    yield from _openings(host.firewall, host)
    if host.firewall.open and host.firewall.rest == "untouched":
        yield refuse(
            "openings-of-an-open-host",
            "firewall.open opens nothing while the rest of the host is left alone",
            where="firewall.open",
            seen='rest="untouched"',
            wanted='rest="closed", or no openings',
            attempt='Firewall(…, rest="closed")',
        )
    low, high = CONFIRM_SECONDS
    if not low <= host.firewall.confirm_seconds <= high:
        yield refuse(
            "out-of-range",
            f"{host.firewall.confirm_seconds} seconds are no time to confirm new rules in",
            where="firewall.confirm_seconds",
            seen=str(host.firewall.confirm_seconds),
            wanted=f"{low} to {high}",
            attempt="confirm_seconds=30, the default",
        )


def _protected(server: Server, firewall: Firewall | None) -> Iterator[Refusal]:
    """A refusal where `protection` is a word and nothing behind it.

    A Firewall covers HTTP, gRPC and metrics of every server of its host (roles/firewall/rules.py), so being declared is
    enough for "firewall"; "balancer" also wants the balancer's own addresses, and no whole network of clients.
    """
    if not server.protection or _is_loopback(server.address):
        return
    if firewall is None:
        ports = f"{server.http_port}, {server.grpc_port} and {server.metrics_port}"
        balancer = server.protection == "balancer"
        example = "10.0.0.9/32" if balancer else "10.0.0.0/8"
        whose = "the balancer's addresses" if balancer else "the networks of its clients"
        yield refuse(
            "protection-without-firewall",
            f'server {server.name}: protection="{server.protection}" is a word, and nothing closes {server.address}',
            where=server_at(server.name, "protection"),
            seen=f"{server.protection!r}, and no firewall on this host",
            wanted=f"a Firewall of this host, which covers ports {ports}; its `allow` holds {whose}",
            attempt=f'"firewall": Firewall(allow=("{example}",)); or address="127.0.0.1"',
        )
    elif server.protection == "balancer" and (wide := [name for name in firewall.allow if _is_wide(name)]):
        yield refuse(
            "balancer-not-named",
            f'server {server.name}: protection="balancer", and the firewall also lets whole networks past the balancer',
            where="firewall.allow",
            seen=", ".join(wide),
            wanted="the addresses the balancer connects from, one by one: a /32 each, or a /128 for IPv6",
            attempt='allow=("10.0.0.5/32", "10.0.0.6/32"); where clients come themselves, protection="firewall"',
        )


def _is_loopback(address: str) -> bool:
    """True for a loopback address, and for what is no address: that is told elsewhere."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True


def _is_wide(written: str) -> bool:
    """True for a network of more than one address; what is no network is told elsewhere."""
    try:
        return ipaddress.ip_network(written).num_addresses > 1
    except ValueError:
        return False


def _networks(firewall: Firewall) -> Iterator[Refusal]:
    lists = {"allow": firewall.allow, "metrics": firewall.metrics, "ssh": firewall.ssh}
    lists |= {f"open[{number}].sources": rule.sources for number, rule in enumerate(firewall.open)}
    for name, networks in lists.items():
        for written in networks:
            yield from _network(written, f"firewall.{name}")
    for name in ("allow", "metrics"):
        yield from _everybody(lists[name], f"firewall.{name}")


def _network(written: str, where: str) -> Iterator[Refusal]:
    try:
        ipaddress.ip_network(written)
    except ValueError as error:
        yield refuse(
            "bad-network",
            f"{written!r} is no network",
            where=where,
            seen=f"{written!r}: {error}",
            wanted="a CIDR whose host bits are zero, as 10.0.0.0/8 or fd00::/8",
            attempt=f'"{_nearest(written)}"',
        )


def _nearest(written: str) -> str:
    """The network somebody may have meant: the one around the address, else an example."""
    try:
        return str(ipaddress.ip_network(written, strict=False))
    except ValueError:
        return "10.0.0.0/8"


def _everybody(networks: tuple[str, ...], where: str) -> Iterator[Refusal]:
    for written in networks:
        if written in ("0.0.0.0/0", "::/0"):
            yield refuse(
                "firewall-allows-everybody",
                f"{written} is everybody, and Triton asks nobody for a password",
                where=where,
                seen=repr(written),
                wanted="the networks of the clients or the balancer",
                attempt='"10.0.0.0/8"',
            )


def _openings(firewall: Firewall, host: Host) -> Iterator[Refusal]:
    served = {
        getattr(server, f"{kind}_port"): server.name for server in host.servers for kind in ("http", "grpc", "metrics")
    }
    for number, opening in enumerate(firewall.open):
        where = f"firewall.open[{number}].port"
        if not 1 <= opening.port <= 65535:
            yield refuse(
                "port-range",
                f"{opening.port} is no port",
                where=where,
                seen=str(opening.port),
                wanted="1 to 65535",
                attempt="Opening(port=9100, sources=(…,))",
            )
        elif opening.port in served and opening.protocol == "tcp":
            yield refuse(
                "port-of-a-server",
                f"port {opening.port} belongs to server {served[opening.port]}, whose clients are named elsewhere",
                where=where,
                seen=str(opening.port),
                wanted="ports of other services; SSH is always open",
                attempt="firewall.allow and firewall.metrics say who reaches a server",
            )
