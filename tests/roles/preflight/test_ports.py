"""Ports of the host's own services that somebody else has: found before the first change."""

from __future__ import annotations

import pytest

from deploy.slices.traffic import TrafficServerSlice, TrafficSlice
from deploy.spec import Gateway
from tests.roles.preflight.test_preflight import kinds
from tests.roles.slices import a_slice
from tests.unit.given import plan


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"listening": "0B00000A:1F44"}, ["port-taken"]),
        ({"listening": "00000000:1F43"}, ["port-taken"]),
        ({"listening": "0B00000A:1F44", "serving": "enginehouse-traffic.service"}, []),
        ({"listening": "0100007F:1F44"}, []),
    ],
    ids=str,
)
def test_a_port_where_balancers_ask_is_ours_or_free(changes: dict[str, str], expected: list[str]) -> None:
    seen_by = TrafficServerSlice(name="main", models=(), seen_as=())
    traffic = TrafficSlice(
        address="10.0.0.11", ready_port=8003, agent_port=8004, drain_seconds=60, heard_seconds=5,
        balancers=(), servers=(seen_by,),
    )  # fmt: skip
    assert kinds(a_slice("debian-12", traffic=traffic), **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"listening": "0100007F:1F90"}, ["port-taken"]),
        ({"listening": "00000000:1F91"}, ["port-taken"]),
        ({"listening": "0100007F:1F90", "serving": "enginehouse-gateway@0.service"}, []),
        ({"listening": "0100007F:1F91", "serving": "enginehouse-gateway@3.service"}, []),
        ({"listening": "0B00000A:1F90"}, []),
    ],
    ids=str,
)
def test_a_port_of_the_gateway_is_its_process_s_or_free(changes: dict[str, str], expected: list[str]) -> None:
    """Found before the first change: the gateway comes last, and a host would serve without it."""
    made = plan(gateway=Gateway(ports=(8080, 8081))).slices[0].gateway
    assert kinds(a_slice("debian-12", gateway=made), **changes) == expected
