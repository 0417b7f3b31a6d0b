"""Wrong balancers, and wrong pools behind them; `h100-01` and `h100-02` are the hosts, `edge` the balancer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from deploy.spec import AcceptedHoles, Balancer, Firewall, Gateway, Rollout, Route, Secret, Traffic
from deploy.spec.surroundings import CertificateFile
from tests.unit.samples import AROUND, EMBEDDER, MACHINE, MAIN, RERANKER, Source
from tests.unit.wrong import Wrong

CHAT = Route(pool="chat", http_port=8080, grpc_port=8081)
EDGE = Balancer(os="debian-12", address="10.0.0.5", routes=(CHAT,), open_to_all=True)
BEHIND = replace(MAIN, address="0.0.0.0", protection="balancer")
KEY = Secret.command("cat", "keys/edge.key")
SIGNED = {"certificate": "keys/edge.pem", "certificate_key": KEY}


def pool(**changes: Any) -> dict[str, Any]:
    """Data of a host of the pool `chat` that balancers reach."""
    return {"servers": (BEHIND,), "pool": "chat", "peer_address": "10.0.0.11"} | changes


def second(**changes: Any) -> Source:
    """The pool's second host."""
    return Source("h100-02", {"machine": MACHINE, **pool(peer_address="10.0.0.12"), **changes})


def edge(**changes: Any) -> Source:
    """The balancer with these changes; `firewall` and `rollout` are the host's own."""
    beside = {key: changes.pop(key) for key in ("firewall", "rollout", "servers") if key in changes}
    return Source("edge", {"balancer": replace(EDGE, **changes), **beside})


def wrong_edge(kind: str, where: str, file: CertificateFile | None = None, **changes: Any) -> Wrong:
    """A balancer with one mistake, before a pool of two good hosts; `file` is the content of its certificate."""
    around = replace(AROUND, certificates={"keys/edge.pem": file} if file else {})
    return Wrong(pool(), kind, where, (second(), edge(**changes)), around)


def wrong_asking(kind: str, field: str, value: str) -> Wrong:
    """A balancer that authenticates its clients, with the mistake in this field."""
    return wrong_edge(kind, f"balancer.{field}", **{field: value, "open_to_all": False})


def wrong_pool(kind: str, where: str, *others: Source, **changes: Any) -> Wrong:
    """A pool with one mistake behind a good balancer."""
    return Wrong(pool(**changes), kind, where, (*(others or (second(),)), edge()))


PATCHY = replace(BEHIND, models=(RERANKER, EMBEDDER))


def with_holes(release: str) -> Wrong:
    """A good pool behind a good balancer, with a release that has known holes."""
    old = {"release": release, "servers": (PATCHY,)}
    return wrong_pool("known-hole", "h100-01 and 1 more: release", second(**old), **old)


KNOWN_HOLES = {
    "strangers run code by known holes of 24.12": with_holes("24.12"),
    "strangers run code by known holes of 25.04": with_holes("25.04"),
    "known holes are accepted for a reason": wrong_pool(
        "no-reason",
        'servers["main"].accepts.reason',
        second(servers=(PATCHY,)),
        servers=(replace(PATCHY, accepts=AcceptedHoles(ids=("CVE-2026-24207",), reason=" ")),),
    ),
    "an accepted hole is one of the table": wrong_pool(
        "unknown-hole",
        'servers["main"].accepts.ids',
        second(servers=(PATCHY,)),
        servers=(replace(PATCHY, accepts=AcceptedHoles(ids=("CVE-2026-24270",), reason="a laboratory")),),
    ),
}

BALANCERS = {
    "a balancer's system is offered the nearest": wrong_edge("unknown-os", "balancer.os", os="debian12"),
    "Ubuntu 22.04's HAProxy is too old": wrong_edge("haproxy-too-old", "balancer.os", os="ubuntu-22.04"),
    "a balancer's address is an address": wrong_edge("bad-address", "balancer.address", address="edge.example"),
    "a balancer's address is no loopback": wrong_edge("bad-address", "balancer.address", address="127.0.0.1"),
    "a balancer has routes": wrong_edge("no-routes", "balancer.routes", routes=()),
    "two pools have two ports": wrong_edge(
        "port-twice",
        'balancer.routes["search"].http_port',
        routes=(CHAT, Route(pool="search", http_port=8080, grpc_port=8083)),
    ),
    "a route's ports are two": wrong_edge(
        "port-twice", 'balancer.routes["chat"].grpc_port', routes=(replace(CHAT, grpc_port=8080),)
    ),
    "metrics have a port of their own": wrong_edge("port-twice", "balancer.metrics_port", metrics_port=8081),
    "a balancer's port is a port": wrong_edge(
        "unbelievable-number", 'balancer.routes["chat"].http_port', routes=(replace(CHAT, http_port=80_800),)
    ),
    "a pool has one route": wrong_edge(
        "pool-routed-twice",
        'balancer.routes["chat"]',
        routes=(CHAT, replace(CHAT, http_port=8090, grpc_port=8091)),
    ),
    "a route leads to hosts": wrong_edge(
        "route-without-hosts", 'balancer.routes["chats"]', routes=(replace(CHAT, pool="chats"),)
    ),
    "nobody waits a day": wrong_edge(
        "unbelievable-number", 'balancer.routes["chat"].hold_seconds', routes=(replace(CHAT, hold_seconds=86_400),)
    ),
    "a certificate has a key": wrong_edge(
        "half-a-certificate", "balancer.certificate_key", certificate="keys/edge.pem"
    ),
    "a key has a certificate": wrong_edge("half-a-certificate", "balancer.certificate", certificate_key=KEY),
    "a balancer asks for no keys without TLS": wrong_asking("keys-in-plain-text", "keys", "file"),
    "clients show certificates over TLS": wrong_asking("clients-in-plain-text", "clients", "c.pem"),
    "a balancer asks clients who they are": wrong_edge("open-balancer", "balancer.keys", open_to_all=False),
    "TLS alone asks nobody": wrong_edge("open-balancer", "balancer.keys", open_to_all=False, **SIGNED),
    "open to all asks nobody": wrong_edge("open-and-asked", "balancer.open_to_all", keys="file", **SIGNED),
    "an address has connections": wrong_edge(
        "unbelievable-number", "balancer.address_connections", address_connections=-1
    ),
    "an address sends requests": wrong_edge("unbelievable-number", "balancer.address_requests", address_requests=-1),
    "a certificate has not expired": wrong_edge(
        "certificate-out-of-time",
        "balancer.certificate",
        CertificateFile(begins=date(2025, 11, 1), ends=date(2026, 11, 1)),
        **SIGNED,
    ),
    "a certificate has begun": wrong_edge(
        "certificate-out-of-time",
        "balancer.certificate",
        CertificateFile(begins=date(2027, 1, 1), ends=date(2028, 1, 1)),
        **SIGNED,
    ),
    "a certificate is one": wrong_edge(
        "no-certificate",
        "balancer.certificate",
        CertificateFile(problem="no certificate in PEM (MalformedFraming)"),
        **SIGNED,
    ),
    "a key is not typed out": wrong_edge(
        "literal-secret",
        "balancer.certificate_key",
        certificate="keys/edge.pem",
        certificate_key="-----BEGIN PRIVATE KEY-----",
    ),
    "a balancer's secret names a place": wrong_edge(
        "nameless-secret",
        "balancer.certificate_key",
        certificate="keys/edge.pem",
        certificate_key=Secret.env("EDGE KEY"),
    ),
    "a balancer's firewall lets somebody in": wrong_edge(
        "firewall-allows-nobody", "firewall.allow", firewall=Firewall()
    ),
    "a balancer serves nothing itself": wrong_edge("balancer-with-servers", "servers", servers=(MAIN,)),
}

BOTH = Rollout(max_unavailable=2, canary_hosts=2)
POOLS = {
    "a drain ends": wrong_pool("unbelievable-number", "traffic.drain_seconds", traffic=Traffic(drain_seconds=86_400)),
    "a balancer that is gone is waited for": wrong_pool(
        "unbelievable-number", "traffic.heard_seconds", traffic=Traffic(heard_seconds=0)
    ),
    "an agent's port needs no privilege": wrong_pool(
        "unbelievable-number", "traffic.agent_port", traffic=Traffic(agent_port=80)
    ),
    "an agent has an address": wrong_pool("bad-address", "traffic.address", traffic=Traffic(address="h1.example")),
    "an agent has a port of its own": wrong_pool(
        "port-twice", "traffic.agent_port", traffic=Traffic(ready_port=8005, agent_port=8005)
    ),
    "a server has a port of its own beside the agent": wrong_pool(
        "port-twice", 'servers["main"].metrics_port', traffic=Traffic(agent_port=8002)
    ),
    "a pool of one holds its requests": Wrong(pool(), "nobody-left", 'balancer.routes["chat"].hold_seconds', (edge(),)),
    "a whole pool does not go out": Wrong(
        pool(rollout=BOTH),
        "nobody-left",
        'balancer.routes["chat"].hold_seconds',
        (
            second(rollout=Rollout(max_unavailable=2, canary_hosts=2)),
            edge(rollout=Rollout(max_unavailable=2, canary_hosts=2)),
        ),
    ),
    "the hosts of a pool serve the same": wrong_pool(
        "pool-of-several-kinds",
        'servers["main"].models',
        second(servers=(replace(BEHIND, models=(RERANKER, EMBEDDER)),)),
    ),
    "a server behind a balancer is not on loopback": wrong_pool(
        "behind-loopback", 'servers["main"].address', servers=(MAIN,)
    ),
    "a balancer reaches the hosts of a pool": wrong_pool("no-peer-address", "peer_address", peer_address=""),
    "two hosts have two addresses": wrong_pool("peer-address-twice", "peer_address", peer_address="10.0.0.12"),
    "a balancer's protection wants a route to the pool": Wrong(
        pool(pool="search"), "protection-without-balancer", 'servers["main"].protection', (second(), edge())
    ),
    "a firewall does not stand in for the route to a pool": Wrong(
        pool(pool="search", firewall=Firewall(allow=("10.0.0.5/32",))),
        "protection-without-balancer",
        'servers["main"].protection',
        (second(), edge(routes=(replace(CHAT, hold_seconds=60),))),
    ),
    "nobody goes around a balancer": wrong_pool(
        "balancer-not-named",
        "firewall.allow",
        firewall=Firewall(allow=("10.0.0.9/32", "10.1.0.0/16", "fd00::9", "fd00::/64")),
    ),
}

BEHIND_GATEWAY = Gateway(address="0.0.0.0", protection="balancer")
TO_GATEWAYS = replace(CHAT, gateway_port=8443)


def wrong_gateway(kind: str, where: str, second_gateway: Gateway | None = BEHIND_GATEWAY, **changes: Any) -> Wrong:
    """Gateways with one mistake, behind a balancer that sends to them; keys of `edge_` change the balancer."""
    of_edge = {"routes": (TO_GATEWAYS,), **SIGNED} | {
        key.removeprefix("edge_"): changes.pop(key) for key in list(changes) if key.startswith("edge_")
    }
    data = pool(**({"gateway": BEHIND_GATEWAY} | changes))
    others = changes.get("others", ())
    data.pop("others", None)
    return Wrong(data, kind, where, (second(gateway=second_gateway), edge(**of_edge), *others))


GATEWAYS = {
    "keys do not travel readable to a balancer": wrong_gateway(
        "gateway-in-plain-text",
        'balancer.routes["chat"].gateway_port',
        edge_certificate="",
        edge_certificate_key=None,
    ),
    "every host of a pool has a gateway": wrong_gateway(
        "route-without-gateways", 'balancer.routes["chat"].gateway_port', second_gateway=None
    ),
    "a gateway on loopback is behind no balancer": wrong_gateway(
        "behind-loopback", "gateway.address", gateway=replace(BEHIND_GATEWAY, address="127.0.0.1")
    ),
    "a gateway behind a balancer wants one": Wrong(
        pool(gateway=BEHIND_GATEWAY), "protection-without-balancer", "gateway.protection", (second(), edge())
    ),
    "nobody goes around a gateway's balancer": wrong_gateway(
        "balancer-not-named",
        "firewall.allow",
        servers=(replace(BEHIND, protection="firewall"),),
        firewall=Firewall(allow=("10.1.0.0/16",)),
    ),
    "a host asks all its balancers alike": wrong_gateway(
        "gateway-on-one-balancer",
        'balancer.routes["chat"].gateway_port',
        edge_routes=(CHAT,),
        others=(Source("edge-2", {"balancer": replace(EDGE, address="10.0.0.6", routes=(TO_GATEWAYS,), **SIGNED)}),),
    ),
    "a gateway's port is no other's": wrong_gateway(
        "port-twice", 'balancer.routes["chat"].gateway_port', edge_routes=(replace(TO_GATEWAYS, gateway_port=8081),)
    ),
}

ALL: dict[str, Wrong] = {**KNOWN_HOLES, **BALANCERS, **POOLS, **GATEWAYS}
