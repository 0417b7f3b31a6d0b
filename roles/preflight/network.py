"""Ports in use by other programs, and unreachable addresses. Pure."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from deploy.refusals import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from deploy.slices.proxy import ProxySlice, reached_directly
from deploy.topology.balancing import LOOPBACK
from deploy.topology.gateway import ACME_PORT
from roles._pyinfra.facts import HostFacts


def ports(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A finding for each of our ports that is taken while our own unit does not run.

    Our own containers do not count: another server's container is stopped before this server starts, or has lost its
    unit.
    """
    ours = {int(port) for port in facts.value("published").split()}
    listening = [address_of(line) for line in facts.value("listening").splitlines()]
    serving = facts.value("serving").splitlines()
    for server in mine.servers:
        llm = server.standalone_llm
        port = llm[1].port if llm and f"llm@{server.name}.service" not in serving else 0
        if port and port not in ours and any(taken == port and _overlap(at, LOOPBACK) for at, taken in listening):
            yield _taken(port, "port", f"llm@{server.name}", f"the LLM beside server {server.name}", facts, mine)
        if f"triton@{server.name}.service" in serving:
            continue
        for name in ("http_port", "grpc_port", "metrics_port"):
            port = getattr(server, name)
            if port not in ours and any(taken == port and _overlap(at, server.address) for at, taken in listening):
                yield _taken(port, name, f"triton@{server.name}", f"server {server.name}", facts, mine)
    if mine.traffic and mine.traffic.servers and "enginehouse-traffic.service" not in serving:
        for name in ("ready_port", "agent_port"):
            port = getattr(mine.traffic, name)
            if any(taken == port and _overlap(at, mine.traffic.address) for at, taken in listening):
                yield _taken(port, name, "enginehouse-traffic", "the traffic service", facts, mine)
    if mine.mutual and mine.mutual.port and "enginehouse-mutual.service" not in serving:
        port = mine.mutual.port
        if any(taken == port and _overlap(at, mine.mutual.address) for at, taken in listening):
            yield _taken(
                port, "gateways_port", "enginehouse-mutual", "mutual TLS, Traffic(gateways_port=…)", facts, mine
            )
    yield from _of_gateway(facts, mine, listening)
    if mine.https and "enginehouse-https.service" not in serving:
        wanted = {"port": mine.https.port} | ({"challenge's port": ACME_PORT} if mine.https.acme else {})
        for name, port in wanted.items():
            if any(taken == port and _overlap(at, mine.https.address) for at, taken in listening):
                yield _taken(port, name, "enginehouse-https", "the gateway's HTTPS, Https(port=…)", facts, mine)


def _of_gateway(
    facts: HostFacts, mine: Slice, listening: list[tuple[IPv4Address | IPv6Address, int]]
) -> Iterator[Refusal]:
    """Ports that a running process of the gateway may hold; other holders show when the processes restart."""
    if mine.gateway is None or any(name.startswith("enginehouse-gateway@") for name in facts.value("serving").split()):
        return
    for port in mine.gateway.ports:
        if any(taken == port and _overlap(at, mine.gateway.address) for at, taken in listening):
            yield _taken(
                port, "port", "enginehouse-gateway@", "the gateway, Gateway(ports=…) or gateway=None", facts, mine
            )


def _taken(port: int, name: str, unit: str, owner: str, facts: HostFacts, mine: Slice) -> Refusal:
    listener = next((line for line in facts.value("listeners").splitlines() if f":{port} " in line), "")
    program = listener.split('(("')[1].split('"')[0] if '(("' in listener else "a program of this host"
    return Refusal(
        f"{mine.host}: port {port} is taken, and not by {unit}",
        facts={"found": f"{program} listens there", "wanted": f"{name} of {owner}"},
        attempt=f"stop that program (ss -ltnp | grep :{port}), or another {name}",
        state=PREFLIGHT,
        kind="port-taken",
    )


def address_of(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Address and port in the notation of /proc/net/tcp: 32-bit words in the host's byte order, then the port."""
    words, port = text.split(":")
    data = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    return ip_address(data), int(port, 16)


def _overlap(address: IPv4Address | IPv6Address, own: str) -> bool:
    """True if a listener at `address` blocks a listener at `own`; a listener on every address always does.

    Addresses are compared by value, not as text: Python 3.13 writes `::ffff:127.0.0.1` where 3.11 and 3.12 write
    `::ffff:7f00:1`, and an inventory may write either.
    """
    taken, wanted = _unmapped(address), _unmapped(ip_address(own))
    return taken.is_unspecified or wanted.is_unspecified or taken == wanted


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def reachable(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A refusal for each address that could not be reached. Behind apt's proxy a direct attempt proves nothing."""
    for line in facts.value("unreachable").splitlines():
        what, _, place = line.partition(" ")
        if mine.proxy is None and what.endswith("-packages") and facts.value("proxy"):
            continue
        if mine.proxy is not None:
            yield _through(mine.host, mine.proxy, what, place)
            continue
        yield Refusal(
            f"{mine.host}: {place} cannot be reached, and {what.replace('-', ' ')} would come from there",
            facts={"found": "no TCP connection from the host", "wanted": place},
            attempt='allow the connection, or name a mirror (mirrors, hub, registry); a proxy is declared as "proxy": '
            'Proxy(url="http://HOST:3128")',
            state=PREFLIGHT,
            kind="unreachable",
        )


def _through(host: str, proxy: ProxySlice, what: str, place: str) -> Refusal:
    """The refusal of an address that the host cannot reach, through its proxy or without it."""
    if reached_directly(place.rsplit(":", 1)[0], (*proxy.direct, *proxy.fleet)):
        return Refusal(
            f"{host}: {place} cannot be reached without the proxy, and {what.replace('-', ' ')} would come from there",
            facts={"found": "no TCP connection from the host", "wanted": f"{place}, which proxy.direct names"},
            attempt="take it out of proxy.direct, or open the way to it",
            state=PREFLIGHT,
            kind="unreachable",
        )
    return Refusal(
        f"{host}: the proxy does not connect to {place}, and {what.replace('-', ' ')} would come from there",
        facts={"found": f"{proxy.url} is not there, or refuses this address", "wanted": place},
        attempt=f"let the proxy connect to {place}; or a mirror, with its name in Proxy(direct=(…,)) if it is inside",
        state=PREFLIGHT,
        kind="unreachable",
    )
