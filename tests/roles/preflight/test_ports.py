"""Ports of the host's own services that a foreign program uses, reported before the first change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.slices.traffic import TrafficServerSlice, TrafficSlice
from deploy.spec import Gateway
from tests.roles.preflight.test_preflight import kinds
from tests.roles.slices import a_slice
from tests.roles.triton.llm_servers import host_with
from tests.unit.samples import plan


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
    """A taken port is reported before the first change: the gateway comes last, and the host would serve without it."""
    made = plan(gateway=Gateway(ports=(8080, 8081))).slices[0].gateway
    assert kinds(a_slice("debian-12", gateway=made), **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"listening": "0100007F:1F4A"}, ["port-taken"]),
        ({"listening": "00000000:1F4A"}, ["port-taken"]),
        ({"listening": "0100007F:1F4A", "published": "8010"}, []),
        ({"listening": "0100007F:1F4A", "serving": "llm@main.service"}, []),
        ({"listening": "0100007F:1F4A", "serving": "triton@main.service"}, ["port-taken"]),
        ({"listening": "0B00000A:1F4A"}, []),
    ],
    ids=str,
)
def test_the_port_of_an_llm_beside_triton_is_ours_or_free(changes: dict[str, str], expected: list[str]) -> None:
    """The port is on loopback, whatever address Triton has."""
    servers = host_with().servers
    assert kinds(a_slice("debian-12", servers=servers), **changes) == expected


@pytest.mark.parametrize(
    ("present", "free_mib", "expected"),
    [
        ({"image": "present", "image-0": "present"}, 28_000, []),
        ({"image": "present"}, 28_000, ["disk"]),
        ({"image": "present"}, 64_000, []),
        ({"pulling": "enginehouse-pull@1.service"}, 28_000, []),
        ({}, 64_000, ["disk"]),
    ],
    ids=str,
)
def test_an_image_beside_triton_that_is_there_asks_for_no_room(
    present: dict[str, str], free_mib: int, expected: list[str]
) -> None:
    """A second run on a finished host is not refused for the room that its first run has used."""
    mine = host_with()
    made = a_slice("debian-12", servers=mine.servers, image=mine.image, disk_needed_mib=mine.disk_needed_mib)
    room = f"/dev/vda1 900000 100000 {free_mib} 12% /"
    assert kinds(made, **{"room": room, "docker-room": room, **present}) == expected


@pytest.mark.parametrize(("free_mib", "expected"), [(60_000, []), (20_000, ["disk"])])
def test_an_image_under_two_names_is_subtracted_once(free_mib: int, expected: list[str]) -> None:
    """Docker stores the layers of a digest once; pulling the second name needs no further room."""
    mine = host_with(image=f"vllm/vllm-openai:v0.26.0@sha256:{'b' * 64}")
    (beside,) = mine.runtime_images
    image = replace(beside, reference="r.internal/triton:1", size_mib=9_000)
    needed_mib = 3 * image.size_mib + 50_000
    made = a_slice("debian-12", servers=mine.servers, image=image, disk_needed_mib=needed_mib)
    room = f"/dev/vda1 900000 100000 {free_mib} 12% /"
    assert kinds(made, **{"room": room, "docker-room": room, "image": "present", "image-0": ""}) == expected
    both_there = {"room": room, "docker-room": room, "image": "present", "image-0": "present", "weights": ""}
    assert kinds(made, **both_there) == expected
