"""The inventory and the readings of the rollout's benchmark, without a machine."""

import itertools
import json
import os
from pathlib import Path

import pytest

from benchmarks import changes, fleet, front, rollout
from benchmarks.in_rotation import Rotation, hosts_in
from deploy.io.inventory import load_plan
from deploy.planning.plan import Plan

REPOSITORY = Path(__file__).parents[2]
MODELS = ("minilm", "nomic-moe", "xlmr-reranker", "gpt-oss-tiny", "llama-tiny")
SERVICES = {
    "address": "10.213.3.1", "apt_url": "http://apt.rehearsal.internal:8480", "apt_key_file": "/nowhere/key.asc",
    "registry_host": "registry.rehearsal.internal:5443", "registry_ca_file": "/nowhere/ca.crt",
    "image": "registry.rehearsal.internal:5443/nvidia/tritonserver:24.10", "image_digest": f"sha256:{'0' * 64}",
    "hub_url": "http://10.213.3.1:8481", "hub_tls_url": "https://10.213.3.1:8483", "checkpoints": "/nowhere",
    "revisions": {f"rehearsal/{name}": "0" * 40 for name in MODELS},
}  # fmt: skip

EXPOSITION = """\
# TYPE haproxy_server_status gauge
haproxy_server_status{proxy="pool0_http",server="h1.main",state="DOWN"} 0
haproxy_server_status{proxy="pool0_http",server="h1.main",state="UP"} 1
haproxy_server_status{proxy="pool0_http",server="h2.main",state="UP"} 1
haproxy_server_status{proxy="pool0_http",server="h3.main",state="UP"} 0
haproxy_server_status{proxy="pool0_http",server="h3.main",state="DRAIN"} 1
haproxy_server_status{proxy="pool0_grpc",server="h1.main",state="UP"} 1
haproxy_server_status{proxy="pool0_grpc",server="h2.main",state="UP"} 0
haproxy_server_status{proxy="pool1_http",server="h4.main",state="UP"} 1
"""


def test_a_host_is_in_while_both_protocols_are_sent_to_it() -> None:
    assert hosts_in(EXPOSITION, ["pool0", "pool1", "pool2"]) == {"pool0": 1, "pool1": 0, "pool2": 0}


def test_the_least_number_of_hosts_in_is_kept() -> None:
    rotation = Rotation()
    for count in (6, 4, 5):
        rotation.add({"pool0": count})
    assert rotation.least == {"pool0": 4}


def test_a_held_pool_is_one_host() -> None:
    options = rollout.parsed(["--held", "--change", "release"])
    assert (options.hosts, options.pools, options.out, options.change) == (1, 1, 1, ["release"])


def test_all_three_changes_are_made_unless_some_are_named() -> None:
    assert rollout.parsed([]).change == ["release", "driver", "daemon"]


def test_manual_changes_stay_out_of_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    rollout.choose(rollout.parsed([]), ["reboot", "driver", "restart-docker"])
    assert os.environ["ROLLOUT_CHANGES"] == "driver"


def plan_of(state: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], made: tuple[str, ...] = ()) -> Plan:
    """Returns the fleet's plan for these options; its machines have records and do not run."""
    options = rollout.parsed(words)
    for name in ("inventories", "benchmarks", "rehearsal"):
        if not (state / name).exists():
            (state / name).symlink_to(REPOSITORY / name)
    records = [("e1", "", "10.213.3.10"), *((f"h{n}", "h100-80", f"10.213.3.{10 + n}") for n in range(1, 7))]
    for name, gpu, address in records[: 1 + options.hosts]:
        write(state / f".rehearsal/number-3/machines/{name}/machine.json", {
            "name": name, "gpu": gpu, "address": address, "os": f"debian-{options.debian}"
        })  # fmt: skip
    write(state / ".rehearsal/number-3/services/services.json", SERVICES)
    monkeypatch.chdir(state)
    monkeypatch.setattr(os, "environ", os.environ | {"ENGINEHOUSE_REHEARSAL_NUMBER": "3"})
    rollout.choose(options, made)
    return load_plan(fleet.INVENTORY)


def write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def test_the_fleet_is_a_pool_of_six_behind_a_balancer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (balancer,) = plan_of(tmp_path, monkeypatch, []).balancers
    (route,) = balancer.routes
    assert [member.name for member in route.members] == [f"h{number}.main" for number in range(1, 7)]
    assert (balancer.address, route.http_port, route.grpc_port) == ("10.213.3.10", 9000, 9001)


def test_two_pools_have_ports_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (balancer,) = plan_of(tmp_path, monkeypatch, ["--pools", "2"]).balancers
    assert [(route.pool, route.http_port, len(route.members)) for route in balancer.routes] == [
        ("pool0", 9000, 3),
        ("pool1", 9010, 3),
    ]


def test_a_held_pool_holds_its_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (balancer,) = plan_of(tmp_path, monkeypatch, ["--held"]).balancers
    assert [(route.hold_seconds, len(route.members)) for route in balancer.routes] == [(front.HOLD_SECONDS, 1)]


def test_every_change_changes_the_plan_of_every_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan_of(tmp_path, monkeypatch, [], tuple(changes.RUNS[:count])) for count in range(4)]
    for before, after in itertools.pairwise(plans):
        assert all(old != new for old, new in zip(before.slices, after.slices, strict=True))
