"""Balancers and monitors without a network: packages from the bundle, and refusals before the first change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.bundle.contents import Contents
from deploy.bundle.lacking import lacking
from deploy.io.bundle import trust_of
from deploy.planning.bundled import PLACE
from deploy.planning.plan import Plan
from deploy.spec import AptMirror, EngineTrust, Firewall, Mirrors, Proxy
from roles._pyinfra.facts import HostFacts
from roles.base import operations
from roles.bundle_needs import needs, support_packages, wanted_packages
from tests.unit.samples import Source, refusals
from tests.unit.test_balancing import EDGE, planned, serving
from tests.unit.test_monitoring import EYES

CLOSED: dict[str, Any] = {"connected": False, "bundle": "/media/bundle", "engine_trust": EngineTrust(key="key")}
MIRROR = Mirrors(system=AptMirror(url="http://mirror.example/", key_file="mirror.asc"))
IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter@sha256:" + "a" * 64


def with_support(changes: dict[str, Any], monitor: Any = EYES) -> Plan:
    """The plan of a connected host, with a balancer and a monitor that have these changes."""
    edge, eyes = {"balancer": EDGE} | changes, {"monitor": monitor} | changes
    return planned(a=serving("10.0.0.11"), edge=edge, eyes=eyes)


def test_apt_of_a_support_host_without_network_reads_its_loopback_alone() -> None:
    plan = with_support(CLOSED | {"mirrors": MIRROR})
    for mine in (*plan.balancers, *plan.monitors):
        assert (mine.bundle, mine.to_json()["bundle"]) == ("/media/bundle", "/media/bundle")
        assert mine.mirrors == Mirrors(
            system=AptMirror(
                url=f"http://{PLACE}/apt/debian-12/system", key_file="/media/bundle/keys/debian-12-system.asc"
            )
        )
        lines = operations.system_list(mine).splitlines()
        assert lines and all(f" http://{PLACE}/apt/debian-12/system/" in line for line in lines)
        assert 'Acquire::Check-Valid-Until "false"' in operations.settings_of_apt(mine)


def test_a_connected_support_host_has_the_plan_and_the_sources_it_had() -> None:
    plain, named = with_support({}), with_support({"connected": True, "mirrors": MIRROR, "bundle": "elsewhere"})
    assert plain.digest == named.digest
    assert not any(operations.is_sourced(mine) for mine in (*named.balancers, *named.monitors))
    assert '"bundle"' not in json.dumps(named.balancers[0].to_json() | named.monitors[0].to_json())


def test_the_bundle_has_the_distributions_packages_of_every_role() -> None:
    plan = with_support({"mirrors": MIRROR, "firewall": Firewall(allow=("10.1.0.0/16",))})
    (balancer,), (monitor,) = plan.balancers, plan.monitors
    assert {"haproxy", "nftables", "prometheus-node-exporter", "python3"} <= support_packages(balancer, {}).keys()
    programs = {"prometheus", "prometheus-alertmanager", "prometheus-blackbox-exporter"}
    assert programs | {"nftables", "prometheus-node-exporter"} <= support_packages(monitor, {}).keys()
    assert not programs & support_packages(balancer, {}).keys()
    first, second = needs((balancer, monitor), {}, {"debian-12": ["6.1.0-28-amd64"]})
    assert [(need.os, [repository.url for repository in need.repositories]) for need in (first, second)] == [
        ("debian-12", ["http://mirror.example"])
    ] * 2
    assert not [name for name in (*first.packages, *second.packages) if name.startswith("linux-headers")]


def test_the_key_of_a_support_host_signs_a_bundle_without_serving_hosts() -> None:
    plan = with_support(CLOSED)
    assert [mine.engine_trust for mine in plan.slices] == [None]
    assert trust_of(plan) == EngineTrust(key="key")


def test_parts_that_a_bundle_lacks_are_refused_before_the_first_change() -> None:
    (balancer,), (monitor,) = with_support(CLOSED).balancers, with_support(CLOSED).monitors
    whole = Contents(parts=(), packages={"debian-12": wanted_packages(balancer, {})})
    assert lacking(balancer, wanted_packages(balancer, {}), whole) == []
    (problem,) = lacking(monitor, wanted_packages(monitor, {}), whole)
    assert problem.kind == "bundle-packages"
    assert problem.facts["wanted"] == "prometheus, prometheus-alertmanager, prometheus-blackbox-exporter"
    (problem,) = lacking(monitor, (), replace(whole, packages={"debian-13": ()}))
    assert problem.kind == "bundle-system"


def test_a_support_host_without_its_bundle_regains_its_own_apt_sources(tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nkey\n")
    closed, connected = with_support(CLOSED).balancers[0], with_support({}).balancers[0]
    system = replace(closed.mirrors.system, key_file=str(tmp_path / "key.asc")) if closed.mirrors.system else None
    closed = replace(closed, mirrors=Mirrors(system=system))
    assert str(list(operations.sources(HostFacts(), closed))[-1]) == "/usr/local/lib/enginehouse/patient-apt update"
    left = HostFacts(files={operations.SOURCES: "0" * 64})
    chosen = operations.Defaults(packages=())
    assert [str(command) for command in operations.tools(left, closed, chosen)] == []
    assert [str(command) for command in operations.tools(left, connected, chosen)] == [
        f"rm -f {operations.SOURCES} && /usr/local/lib/enginehouse/patient-apt update"
    ]


@pytest.mark.parametrize(
    ("changes", "kind", "where"),
    [
        ({"engine_trust": None}, "bundle-without-trust", "engine_trust"),
        ({"bundle": "bundle.tar.gz"}, "no-path", "bundle"),
        ({"proxy": Proxy(url="http://proxy.example:3128")}, "proxy-of-no-network", "proxy"),
        ({"connected": "no"}, "wrong-type", "connected"),
    ],
)
def test_what_no_bundle_can_give_a_support_host_is_refused_in_planning(
    changes: dict[str, Any], kind: str, where: str
) -> None:
    beside = CLOSED | changes
    inventory = [Source("a", serving("10.0.0.11")), Source("edge", {"balancer": EDGE} | beside)]
    problems = refusals(*inventory, Source("eyes", {"monitor": EYES} | beside))
    assert (problems[0].kind, problems[0].facts["where"]) == (kind, f"edge and 1 more: {where}")


def test_an_exporter_that_its_unit_would_pull_is_refused_beside_hosts_without_network() -> None:
    host = serving("10.0.0.11") | CLOSED | {"image_digest": "sha256:" + "5e" * 32}
    eyes = Source("eyes", {"monitor": replace(EYES, dcgm_image=IMAGE)})
    edge = Source("edge", {"balancer": EDGE})
    assert [problem.kind for problem in refusals(Source("a", host), edge, eyes)] == ["bundle-without-dcgm"]
