"""Hosts that share files: the plan of each, and of hosts that do not share."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.slices.sharing import PeerSlice, SharedSlice
from deploy.spec import Sharing
from tests.unit.samples import EMBEDDER, GPT_OSS, MACHINE, MAIN, Source, plan
from tests.unit.test_report import printed

MODELS = (EMBEDDER, GPT_OSS)


def fleet(**third: Any) -> Plan:
    """`a` and `b` share two models; `third` is the data of `c` beside its two models."""
    data = {"machine": MACHINE, "release": "26.07", "gateway": None, "servers": (replace(MAIN, models=MODELS),)}
    two = [
        Source(name, {**data, "sharing": Sharing(), "peer_address": f"10.0.0.{number}"})
        for number, name in enumerate("ab", 1)
    ]
    return plan(*two, Source("c", data | third))


def shared(made: Plan, host: str) -> dict[str, SharedSlice]:
    """The files that a host shares, by model."""
    sharing = made.for_host(host).sharing
    return {files.model: files for files in sharing.files} if sharing else {}


def test_both_sides_name_one_port_for_one_set_of_files() -> None:
    made = fleet()
    assert shared(made, "a")["nomic"].here == "10.0.0.1:7401"
    assert shared(made, "b")["nomic"].peers == (PeerSlice(host="a", place="10.0.0.1:7401"),)
    assert {model: files.port for model, files in shared(made, "a").items()} == {"gpt-oss-20b": 7400, "nomic": 7401}


def test_a_host_without_the_setting_shares_nothing() -> None:
    made = fleet()
    assert (shared(made, "c"), "sharing" in made.for_host("c").to_json()) == ({}, False)
    assert [peer.host for peer in shared(made, "a")["nomic"].peers] == ["b"]


def test_an_ipv6_address_stands_in_brackets() -> None:
    made = fleet(sharing=Sharing(), peer_address="fd00::3")
    assert shared(made, "c")["nomic"].here == "[fd00::3]:7401"
    sharing = made.for_host("a").sharing
    assert sharing and sharing.addresses == ("10.0.0.2", "fd00::3")


def test_a_private_model_of_one_host_is_shared_by_none() -> None:
    private = replace(EMBEDDER, weights=replace(EMBEDDER.weights, private=True))
    server = replace(MAIN, models=(private, GPT_OSS))
    made = fleet(sharing=Sharing(), peer_address="10.0.0.3", servers=(server,))
    assert [list(shared(made, name)) for name in "abc"] == [["gpt-oss-20b"]] * 3


def test_other_files_of_the_same_commit_are_another_set() -> None:
    fewer = replace(GPT_OSS, weights=replace(GPT_OSS.weights, files=("*.safetensors", "*.json")))
    made = fleet(sharing=Sharing(), peer_address="10.0.0.3", servers=(replace(MAIN, models=(fewer,)),))
    assert shared(made, "c") == {}


def test_the_only_host_with_a_model_does_not_share_it() -> None:
    made = plan(Source("a", {"machine": MACHINE, "servers": (MAIN,), "gateway": None, "sharing": Sharing(),
                             "peer_address": "10.0.0.1"}))  # fmt: skip
    assert made.for_host("a").sharing is None


def test_the_plan_lists_shared_files_and_their_hosts() -> None:
    text = printed(plan_report(fleet()))
    assert "shares nomic (port 7401, 2 hosts), gpt-oss-20b (port 7400, 2 hosts)" in text
    assert "a … b (2 hosts)" in text


def test_a_plan_without_sharing_does_not_say_the_word() -> None:
    assert "sharing" not in json.dumps(plan().to_json())


def pinned(*ports: int) -> Plan:
    """Hosts with one pinned image, and the ports of loopback from which Docker pulls it."""
    data = {"machine": MACHINE, "servers": (MAIN,), "gateway": None, "image_digest": "sha256:" + "5" * 64}
    sources = [
        (f"h{n}", {"peer_address": f"10.0.0.{n}", "sharing": Sharing(images_port=port)})
        for n, port in enumerate(ports, 1)
    ]
    return plan(*(Source(name, data | own) for name, own in sources))


def test_a_pinned_image_is_a_set_of_files_of_its_own() -> None:
    made = pinned(7399, 7398)
    image = shared(made, "h1")["image-555555555555"]
    assert (image.revision, [peer.host for peer in image.peers]) == ("sha256:" + "5" * 64, ["h2"])
    references = [made.for_host(name).servers[0].image.pull_reference for name in ("h1", "h2")]
    assert references == [f"127.0.0.1:{port}/nvidia/tritonserver@sha256:{'5' * 64}" for port in (7399, 7398)]


def test_an_image_is_shared_only_where_a_port_is_given() -> None:
    made = pinned(7399, 0)
    assert "image-555555555555" not in shared(made, "h1")
    assert made.for_host("h2").image.pull_reference == f"nvcr.io/nvidia/tritonserver@sha256:{'5' * 64}"
    assert "shared_port" not in json.dumps(made.for_host("h2").to_json())


def test_blobs_that_are_kept_take_their_room() -> None:
    made = pinned(7399, 0)
    more = made.for_host("h1").disk_needed_mib - made.for_host("h2").disk_needed_mib
    assert more == made.for_host("h1").image.size_mib
