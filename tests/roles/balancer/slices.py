"""Balancers for role tests: one pool of two hosts, in which a test changes single fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.slices.traffic import BalancerSlice, GatewayMemberSlice, GatewayRouteSlice, MemberSlice, RouteSlice


def member(number: int, **changes: Any) -> MemberSlice:
    """A server of host h`number` with two models."""
    whole = MemberSlice(
        name=f"h{number}.main",
        server="main",
        address=f"10.0.0.{10 + number}",
        http_port=8000,
        grpc_port=8001,
        agent_address=f"10.0.0.{10 + number}",
        agent_port=8004,
        models=("llama", "bge"),
    )
    return replace(whole, **changes)


CHAT = RouteSlice(
    pool="chat", http_port=8080, grpc_port=8081, hold_seconds=0, held_in_flight=64, members=(member(1), member(2))
)


def gateway_route(*numbers: int, port: int = 8443, answer_seconds: int = 780) -> GatewayRouteSlice:
    """A port for the gateways of these hosts, with one process each."""
    members = (
        GatewayMemberSlice(
            name=f"h{number}.8080",
            question="main",
            address=f"10.0.0.{10 + number}",
            port=8080,
            agent_address=f"10.0.0.{10 + number}",
            agent_port=8004,
        )
        for number in numbers
    )
    return GatewayRouteSlice(port=port, answer_seconds=answer_seconds, members=tuple(members))


def a_balancer(*routes: RouteSlice, **changes: Any) -> BalancerSlice:
    """A balancer on Debian 12 with these routes, or one to the pool `chat`."""
    whole = BalancerSlice(
        host="@fake/host",
        os="debian-12",
        haproxy="2.6",
        address="10.0.0.5",
        metrics_port=8405,
        certificate="",
        certificate_key=None,
        routes=routes or (CHAT,),
        address_connections=4096,
        address_requests=120_000,
    )
    return replace(whole, **changes)
