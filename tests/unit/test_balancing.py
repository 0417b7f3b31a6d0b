"""Balancers and hosts know each other by the same names, whatever the inventory's order."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

from deploy.fleet import Fleet
from deploy.plan import Plan, make_plan
from deploy.spec import Balancer, Embedder, Firewall, Machine, Route, Server, Weights
from deploy.surroundings import Surroundings

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
EDGE = Balancer(os="debian-12", address="10.0.0.5", routes=(Route(pool="chat", http_port=8080, grpc_port=8081),))


def test_a_host_waits_for_the_lines_that_its_balancer_has() -> None:
    plan = planned(a=serving("10.0.0.11"), b=serving("10.0.0.12"), edge={"balancer": EDGE})
    (edge,) = plan.balancers
    lines = {f"chat_{kind}/{member.name}" for member in edge.routes[0].members for kind in ("http", "grpc")}
    waited = [slice_.traffic for slice_ in plan.slices]
    assert {name for traffic in waited if traffic for server in traffic.servers for name in server.seen_as} == lines
    assert [member.address for member in edge.routes[0].members] == ["10.0.0.11", "10.0.0.12"]
    assert {one.metrics for traffic in waited if traffic for one in traffic.balancers} == {
        "http://10.0.0.5:8405/metrics"
    }


def test_a_host_without_a_pool_asks_no_balancer() -> None:
    plan = planned(a=serving("10.0.0.11") | {"pool": ""}, edge={"balancer": EDGE})
    (traffic,) = [slice_.traffic for slice_ in plan.slices]
    assert traffic
    assert (traffic.balancers, [server.seen_as for server in traffic.servers]) == ((), [()])


def test_a_balancer_changes_the_digest() -> None:
    without = planned(a=serving("10.0.0.11"))
    assert without.digest != planned(a=serving("10.0.0.11"), edge={"balancer": EDGE}).digest


def test_a_balancer_with_servers_is_refused() -> None:
    fleet = fleet_of(edge={"balancer": EDGE, "servers": (SERVER,)})
    assert [problem.kind for _host, problem in fleet.unread] == ["balancer-with-servers"]


def serving(address: str) -> dict[str, object]:
    return {
        "machine": Machine(os="debian-12", gpu="h100-80"),
        "servers": (SERVER,),
        "pool": "chat",
        "peer_address": address,
        "firewall": Firewall(allow=("10.0.0.5/32",)),
        "image_digest": f"sha256:{'0' * 64}",
    }


def fleet_of(**hosts: dict[str, object]) -> Fleet:
    return Fleet.of(SimpleNamespace(name=name, data=data, groups=()) for name, data in hosts.items())


def planned(**hosts: dict[str, object]) -> Plan:
    around = Surroundings(today=datetime.date(2026, 11, 23))
    return make_plan(fleet_of(**hosts), around)
