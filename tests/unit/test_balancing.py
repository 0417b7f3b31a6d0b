"""Balancers and hosts use the same names for each other, whatever the inventory's order."""

from __future__ import annotations

import datetime
from dataclasses import replace
from types import SimpleNamespace

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import Plan, make_plan
from deploy.spec import (
    Balancer,
    Embedder,
    Firewall,
    Gateway,
    GatewayLimits,
    Machine,
    Rollout,
    Route,
    Secret,
    Server,
    Weights,
)
from deploy.spec.surroundings import Surroundings

WEIGHTS = Weights.hub("sentence-transformers/all-MiniLM-L6-v2", "0" * 40)
SERVER = Server(
    name="main",
    address="0.0.0.0",
    protection="balancer",
    models=(
        Embedder(
            name="minilm",
            checkpoint="all-minilm-l6-v2",
            weights=Weights.hub("sentence-transformers/all-MiniLM-L6-v2", "0" * 40),
        ),
    ),
)
OPEN = replace(SERVER, protection="firewall")
"""A server that every client in the firewall of its host can reach."""
CHAT = Route(pool="chat", http_port=8080, grpc_port=8081, hold_seconds=60)
EDGE = Balancer(os="debian-12", address="10.0.0.5", routes=(CHAT,), open_to_all=True)


def test_a_host_waits_for_the_lines_that_its_balancer_has() -> None:
    plan = planned(a=serving("10.0.0.11"), b=serving("10.0.0.12"), edge={"balancer": EDGE})
    (edge,) = plan.balancers
    lines = {f"chat_{kind}/{member.name}" for member in edge.routes[0].members for kind in ("http", "grpc")}
    waited = [slice_.traffic for slice_ in plan.slices]
    assert {name for traffic in waited if traffic for server in traffic.servers for name in server.seen_as} == lines
    assert [member.address for member in edge.routes[0].members] == ["10.0.0.11", "10.0.0.12"]
    assert {balancer.metrics for traffic in waited if traffic for balancer in traffic.balancers} == {
        "http://10.0.0.5:8405/metrics"
    }


def test_a_host_without_a_pool_asks_no_balancer() -> None:
    alone = serving("10.0.0.11", OPEN) | {"pool": "", "firewall": Firewall(allow=("10.0.0.7/32",))}
    traffic = planned(a=alone, b=serving("10.0.0.12"), edge={"balancer": EDGE}).for_host("a").traffic
    assert traffic
    assert (traffic.balancers, [server.seen_as for server in traffic.servers]) == ((), [()])


def test_a_balancer_changes_the_digest() -> None:
    host = serving("10.0.0.11", OPEN) | {"firewall": Firewall(allow=("10.0.0.5/32",))}
    assert planned(a=host).digest != planned(a=host, edge={"balancer": EDGE}).digest


def test_a_balancer_with_servers_is_refused() -> None:
    fleet = fleet_of(edge={"balancer": EDGE, "servers": (SERVER,)})
    assert [problem.kind for _host, problem in fleet.unread] == ["balancer-with-servers"]


def test_a_host_behind_a_balancer_admits_only_the_balancer() -> None:
    assert planned(a=serving("10.0.0.11"), edge={"balancer": EDGE}).for_host("a").firewall == Firewall(
        allow=("10.0.0.5/32",)
    )


def test_a_declared_firewall_keeps_its_rules_and_admits_every_balancer() -> None:
    declared = serving("10.0.0.11") | {"firewall": Firewall(ssh=("10.9.0.0/24",), rest="closed")}
    second = replace(EDGE, address="10.0.0.6")
    plan = planned(a=declared, edge_1={"balancer": EDGE}, edge_2={"balancer": second})
    assert plan.for_host("a").firewall == Firewall(
        allow=("10.0.0.5/32", "10.0.0.6/32"), ssh=("10.9.0.0/24",), rest="closed"
    )


def test_a_balancers_exporter_is_open_to_the_hosts_that_ask_it_at_a_stop() -> None:
    edge = {"balancer": EDGE, "firewall": Firewall(allow=("10.1.0.0/16",))}
    search_host = serving("10.0.0.12", OPEN) | {"pool": "search", "firewall": Firewall(allow=("10.0.0.7/32",))}
    (balancer,) = planned(a=serving("10.0.0.11"), b=search_host, edge=edge).balancers
    assert balancer.firewall
    assert balancer.firewall.metrics == ("10.1.0.0/16", "10.0.0.11/32")


def test_held_requests_of_all_balancers_take_at_most_half_of_the_smallest_queue() -> None:
    """Each port sends at least one request, for any size of the queue."""
    (model,) = SERVER.models
    larger = replace(model, name="larger", max_queue_size=1024)

    def sent_on(size: int, **edges: dict[str, object]) -> list[int]:
        first, second = (replace(SERVER, models=(larger, replace(model, max_queue_size=most))) for most in (512, size))
        plan = planned(a=serving("10.0.0.11", first), b=serving("10.0.0.12", second), **edges)
        return [edge.routes[0].held_in_flight for edge in plan.balancers]

    first, second = {"balancer": EDGE}, {"balancer": replace(EDGE, address="10.0.0.6")}
    assert [sent_on(256, e1=first), sent_on(256, e1=first, e2=second), sent_on(1, e1=first)] == [[64], [32, 32], [1]]


def test_a_pool_that_may_be_interrupted_needs_no_hold() -> None:
    edge = {"balancer": replace(EDGE, routes=(replace(CHAT, hold_seconds=0),)), "rollout": Rollout(interrupt=True)}
    assert planned(a=serving("10.0.0.11") | {"rollout": Rollout(interrupt=True)}, edge=edge).balancers


def test_a_stop_waits_for_the_gateways_open_requests_too() -> None:
    plan = behind_gateways()
    (edge,) = plan.balancers
    gateway = edge.routes[0].gateway
    assert gateway
    assert [(member.name, member.address, member.port, member.question) for member in gateway.members] == [
        ("a.8080", "10.0.0.11", 8080, "main"),
        ("a.8081", "10.0.0.11", 8081, "main"),
        ("b.8080", "10.0.0.12", 8080, "main"),
        ("b.8081", "10.0.0.12", 8081, "main"),
    ]
    traffic = plan.for_host("a").traffic
    assert traffic
    assert traffic.servers[0].seen_as[2:] == ("chat_gateway/a.8080", "chat_gateway/a.8081")


def test_a_balancer_waits_longer_than_any_gateway_takes() -> None:
    slow = replace(GATEWAY, hold_seconds=300, limits=GatewayLimits(request_seconds=7200))
    gateway = behind_gateways(slow).balancers[0].routes[0].gateway
    assert gateway
    assert gateway.answer_seconds == 7200 + 300 + 60


def test_a_gateway_of_two_servers_stays_in_while_one_of_them_drains() -> None:
    """A server's agent-check reflects that server only; the host's agent-check stays ready for the other server."""
    two = (SERVER, replace(SERVER, name="two", gpus=(1,), http_port=8010, grpc_port=8011, metrics_port=8012))
    plan = behind_gateways(servers=two, machine=Machine(os="debian-12", gpu="h100-80", gpus=2))
    mine, gateway = plan.for_host("a"), plan.balancers[0].routes[0].gateway
    assert gateway and mine.gateway and mine.traffic
    assert gateway.members[0].question == "main,two"
    assert not mine.gateway.is_behind_balancer
    assert not [line for server in mine.traffic.servers for line in server.seen_as if "_gateway/" in line]


def test_a_gateway_without_a_route_leaves_the_balancer_unchanged() -> None:
    (edge,) = planned(a=serving("10.0.0.11") | {"gateway": Gateway()}, edge={"balancer": EDGE}).balancers
    assert "gateway" not in str(edge.to_json())


def test_balancers_that_ask_for_keys_share_their_limits() -> None:
    key = Secret.command("cat", "keys/edge.key")
    asks = replace(EDGE, keys="file", open_to_all=False, certificate="keys/edge.pem", certificate_key=key)
    hosts = {"a": serving("10.0.0.11"), "edge": {"balancer": asks}}
    with_keys = planned(**hosts, open={"balancer": replace(EDGE, address="10.0.0.6")}).balancers
    both_with_keys = planned(**hosts, other={"balancer": replace(asks, address="10.0.0.6")}).balancers
    assert [(slice_.keys, slice_.sharing) for slice_ in with_keys] == [("file", 1), ("", 1)]
    assert [(slice_.keys, slice_.sharing) for slice_ in both_with_keys] == [("file", 2), ("file", 2)]
    assert ["keys" in slice_.to_json() for slice_ in with_keys] == [True, False]


def test_the_plan_notes_a_balancer_without_authentication() -> None:
    key = Secret.command("cat", "keys/edge.key")
    asks = replace(EDGE, keys="file", open_to_all=False, certificate="keys/edge.pem", certificate_key=key)

    def notes(balancer: Balancer) -> list[str]:
        plan = planned(a=serving("10.0.0.11"), b=serving("10.0.0.12"), edge={"balancer": balancer})
        return [note for note in plan.warnings if "asks clients for nothing" in note]

    assert (notes(EDGE), notes(asks)) == (
        [
            "edge asks clients for nothing (open_to_all=True): whoever reaches 10.0.0.5 may use every model of its "
            "pools by KServe, "
            "without a key and without limits"
        ],
        [],
    )


def test_the_plan_lists_ports_that_bypass_the_gateways_keys() -> None:
    """The note covers networks that a firewall admits to Triton; none without keys, or if only a balancer is
    admitted."""

    def notes(server: Server, gateway: Gateway) -> list[str]:
        host = serving("10.0.0.11", server) | {"gateway": gateway, "firewall": Firewall(allow=("10.0.0.5/32",))}
        plan = planned(a=host, b=serving("10.0.0.12"), edge={"balancer": EDGE})
        return [note for note in plan.warnings if "directly" in note]

    passed = "the gateway asks for keys, but the firewall admits 10.0.0.5/32 to server main directly, without keys and "
    assert notes(OPEN, Gateway()) == [passed + "limits"]
    assert (notes(SERVER, Gateway()), notes(OPEN, Gateway(keys=None))) == ([], [])


GATEWAY = Gateway(address="0.0.0.0", protection="balancer", ports=(8080, 8081))


def behind_gateways(gateway: Gateway = GATEWAY, **changes: object) -> Plan:
    """Two hosts with gateways, and a balancer that sends to them."""
    key = Secret.command("cat", "keys/edge.key")
    declared = replace(
        EDGE, routes=(replace(CHAT, gateway_port=8443),), certificate="keys/edge.pem", certificate_key=key
    )
    hosts = {name: serving(f"10.0.0.1{at}") | {"gateway": gateway} | changes for at, name in ((1, "a"), (2, "b"))}
    return planned(**hosts, edge={"balancer": declared})


def serving(address: str, server: Server = SERVER) -> dict[str, object]:
    return {
        "machine": Machine(os="debian-12", gpu="h100-80"),
        "servers": (server,),
        "pool": "chat",
        "peer_address": address,
        "image_digest": f"sha256:{'0' * 64}",
    }


def fleet_of(**hosts: dict[str, object]) -> Fleet:
    return Fleet.of(SimpleNamespace(name=name, data=data, groups=()) for name, data in hosts.items())


def planned(**hosts: dict[str, object]) -> Plan:
    around = Surroundings(today=datetime.date(2026, 11, 23))
    return make_plan(fleet_of(**hosts), around)
