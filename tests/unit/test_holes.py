"""Known holes: rows with sources, refused if strangers can reach them, noted elsewhere, and reported on running hosts.

`GOLDEN=write pytest tests/unit/test_holes.py` writes the table of deploy/catalog/README.md anew.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.catalog.holes import (
    COMPONENTS,
    EFFECTS,
    HOLES,
    OLD_AFTER_DAYS,
    REACHES,
    READ,
    Component,
    Hole,
    holes_in,
    holes_in_package,
    release_of_core,
)
from deploy.catalog.releases import OFFERED
from deploy.catalog.systems import SYSTEMS
from deploy.catalog.versions import debian_at_least, version
from deploy.planning.plan import Plan
from deploy.spec import AcceptedHoles, Driver, Firewall, Gateway, Release
from tests.unit.doctored import WANTED, examined
from tests.unit.samples import AROUND, EMBEDDER, MAIN, RERANKER, plan, refusals
from tests.unit.wrong_balancers import BEHIND, edge, second

PAGE = Path(__file__).parents[2] / "deploy/catalog/README.md"
ENCODERS = replace(MAIN, models=(RERANKER, EMBEDDER))
STRANGERS_2504 = {
    *("CVE-2025-23310", "CVE-2025-23311", "CVE-2025-23316", "CVE-2025-23317", "CVE-2025-23318", "CVE-2025-23319"),
    *("CVE-2025-23327", "CVE-2026-24207", "CVE-2026-47481", "CVE-2026-47606", "CVE-2026-47627"),
}


def routed(release: str | Release) -> list[str]:
    """Kinds of the refusals of a pool of two hosts with this release, behind a balancer."""
    data = {"servers": (replace(BEHIND, models=ENCODERS.models),), "release": release}
    first_host, second_host = second(**data), second(**data)
    first_host = replace(first_host, name="h100-01", data=first_host.data | {"peer_address": "10.0.0.11"})
    return [problem.kind for problem in refusals(first_host, second_host, edge())]


def row_of(hole: Hole) -> str:
    """A row of the page."""
    where = "; ".join(filter(None, [REACHES[hole.reach], hole.only, "" if hole.applies else "not judged"]))
    fixed = ", ".join([*hole.fixed, *(f"{os} {number}" for os, number in hole.packages.items())])
    read = hole.read.isoformat() if hole.read else "**from memory**"
    cells = (COMPONENTS[hole.component], hole.id, fixed, where, EFFECTS[hole.effect], hole.source, read)
    return f"| {' | '.join(cells)} |"


def test_the_page_has_every_row_and_says_which_come_from_memory() -> None:
    parts = PAGE.read_text("utf-8").split("<!-- written -->\n")
    from_memory = [hole.id for hole in HOLES if hole.read is None]
    sentence = f"From memory, not read: {', '.join(from_memory) or 'no row'}. The table was read on {READ}."
    heads = ["| of | hole | fixed in | what an attacker needs | effect | source | read |", "| --- |" + " --- |" * 6]
    table = "\n".join([*heads, *map(row_of, HOLES)])
    written = "<!-- written -->\n".join([parts[0], f"\n{sentence}\n\n{table}\n\n", parts[2]])
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(written, "utf-8")
    assert PAGE.read_text("utf-8") == written


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.id)
def test_each_row_is_well_formed(hole: Hole) -> None:
    """An id, versions in order, a source, a past date, known systems."""
    assert re.fullmatch(r"CVE-20\d\d-\d{4,6}", hole.id)
    assert hole.fixed or hole.packages
    assert list(hole.fixed) == sorted(hole.fixed, key=version) and all(map(version, hole.fixed))
    assert hole.source and (hole.read is None or hole.read <= READ)
    assert set(hole.packages) <= set(SYSTEMS)
    assert hole.applies or hole.only, "a row that nobody is judged by says why"


def test_no_hole_has_two_rows() -> None:
    assert len({hole.id for hole in HOLES}) == len(HOLES) == 102


VERSIONS = st.lists(st.integers(0, 700), min_size=1, max_size=3)


@given(hole=st.sampled_from([hole for hole in HOLES if hole.fixed]), more=VERSIONS, branch=st.integers(0, 5))
def test_a_version_at_or_above_a_fix_of_its_branch_is_never_flagged(hole: Hole, more: list[int], branch: int) -> None:
    fix = hole.fixed[branch % len(hole.fixed)]
    numbers = version(fix)
    above = (*numbers[:-1], numbers[-1] + more[0])
    newest = version(hole.fixed[-1])
    assert not hole.is_in(fix)
    assert not hole.is_in(".".join(map(str, above)))
    assert not hole.is_in(".".join(map(str, (newest[0] + 1 + more[0], *more))))


@given(hole=st.sampled_from([hole for hole in HOLES if hole.packages]), tail=st.integers(0, 99))
def test_a_package_at_or_above_its_distributions_fix_is_never_flagged(hole: Hole, tail: int) -> None:
    for system, fix in hole.packages.items():
        assert not hole.is_in_package(system, fix)
        assert not hole.is_in_package(system, f"{fix}.{tail}")


@pytest.mark.parametrize(
    ("component", "number", "has"),
    [
        ("triton", "25.06", "CVE-2025-23310"),
        ("triton", "25.07", "CVE-2025-23316"),
        ("runc", "1.3.2", "CVE-2025-31133"),
        ("runc", "1.1.15", "CVE-2025-31133"),
        ("containerd", "1.7.28", "CVE-2024-25621"),
        ("driver", "580.159.04", "CVE-2026-47595"),
        ("driver", "595.71.04", "CVE-2026-24187"),
        ("container-toolkit", "1.19.0-1", "CVE-2026-24260"),
        ("haproxy", "3.0.29", "CVE-2026-110354"),
        ("tensorrt-llm", "0.16.0", "CVE-2025-23254"),
    ],
)
def test_a_version_below_a_fix_is_flagged(component: Component, number: str, has: str) -> None:
    assert has in [hole.id for hole in holes_in(component, number)]


@pytest.mark.parametrize(
    ("component", "number", "not_in"),
    [
        ("driver", "590.48.01", "CVE-2026-24187"),
        ("driver", "570.211.01", "CVE-2026-47595"),
        ("driver", "", "CVE-2026-47595"),
        ("haproxy", "2.6.12", "CVE-2026-110354"),
        ("haproxy", "2.8.5", "CVE-2024-45506"),
        ("runc", "unknown", "CVE-2025-31133"),
    ],
)
def test_a_version_that_the_source_does_not_speak_of_is_not_guessed_at(
    component: Component, number: str, not_in: str
) -> None:
    assert not_in not in [hole.id for hole in holes_in(component, number)]


def test_a_package_is_judged_by_its_distributions_number_alone() -> None:
    """2.6.12 is below every upstream fix; Debian fixed it in its own fourth revision."""
    open_holes = [hole.id for hole in holes_in_package("haproxy", "debian-12", "2.6.12-1+deb12u3")]
    assert open_holes == ["CVE-2026-110354"]
    assert holes_in_package("haproxy", "debian-12", "2.6.12-1+deb12u4") == ()
    assert holes_in_package("haproxy", "ubuntu-24.04", "2.8.5-1ubuntu3") == (), "no number of Ubuntu's was read"


def test_packages_compare_as_dpkg_has_it() -> None:
    """Each version is older than the next; checked with `dpkg --compare-versions` on 2026-11-25."""
    order = [
        "1.0~rc1-1",
        "1.0-1~bpo1",
        "1.0-1",
        "1.0-1+deb12u1",
        "1.0-1+deb12u3",
        "1.0-1+deb12u10",
        "1.0.1-1",
        "1:0.1-1",
    ]
    assert [(low, high) for low, high in pairwise(order) if debian_at_least(low, high)] == []
    assert [(low, high) for low, high in pairwise(order) if not debian_at_least(high, low)] == []


@pytest.mark.parametrize("release", [name for name in OFFERED if name != "26.07"])
def test_an_older_release_behind_a_balancer_is_refused(release: str) -> None:
    assert routed(release) == ["known-hole"]


def test_the_newest_release_behind_a_balancer_is_planned() -> None:
    assert routed("26.07") == []


def test_the_refusal_names_every_hole_and_the_first_release_without() -> None:
    (problem,) = refusals(
        release="25.04",
        servers=(replace(ENCODERS, address="0.0.0.0", protection="firewall"),),
        firewall=Firewall(allow=("10.0.0.0/8",)),
    )
    assert (problem.kind, problem.facts["wanted"]) == (
        "known-hole",
        "Triton 26.06 or newer, which has none of them (deploy/catalog/README.md)",
    )
    ids, _, listens = problem.facts["seen"].partition("; ")
    assert (set(ids.split(", ")), listens) == (STRANGERS_2504, "server main listens on 0.0.0.0")


OPEN = {"firewall": Firewall(allow=("10.0.0.0/8",))}
ACCEPTED = AcceptedHoles(ids=tuple(STRANGERS_2504), reason="two services of our own reach this network")


@pytest.mark.parametrize(
    "mended",
    [
        {"release": "26.07"},
        {"servers": (ENCODERS,), "firewall": None, "gateway": Gateway()},
        {"servers": (replace(ENCODERS, address="0.0.0.0", protection="firewall", accepts=ACCEPTED),)},
    ],
    ids=["a newer release", "loopback and a gateway", "accepted"],
)
def test_everything_that_the_refusal_offers_is_planned(mended: dict[str, object]) -> None:
    server = replace(ENCODERS, address="0.0.0.0", protection="firewall")
    assert [problem.kind for problem in refusals(**({"release": "25.04", "servers": (server,)} | OPEN))] == [
        "known-hole"
    ]
    assert refusals(**({"release": "25.04", "servers": (server,)} | OPEN | mended)) == []


def test_an_acceptance_of_one_hole_leaves_the_others_refused() -> None:
    acceptance = AcceptedHoles(ids=("CVE-2025-23310",), reason="known to us")
    server = replace(ENCODERS, address="0.0.0.0", protection="firewall", accepts=acceptance)
    (problem,) = refusals(release="25.04", servers=(server,), firewall=Firewall(allow=("10.0.0.0/8",)))
    assert "CVE-2025-23310" not in problem.facts["seen"]


@pytest.mark.parametrize("release", ["24.12", "25.04"])
def test_on_loopback_the_holes_of_an_old_release_are_a_note(release: str) -> None:
    made: Plan = plan(release=release, servers=(ENCODERS,))
    (note,) = [sentence for sentence in made.warnings if "can run code" in sentence]
    assert note.startswith(f"release {release}: whoever reaches Triton's ports can run code (CVE-2025-23327, ")
    assert note.endswith("; fixed in 26.06; the plan keeps them on loopback")


def test_an_acceptance_is_in_the_plan_with_its_reason() -> None:
    server = replace(ENCODERS, accepts=AcceptedHoles(ids=("CVE-2025-23310",), reason="a laboratory"))
    assert "server main accepts CVE-2025-23310: a laboratory" in plan(servers=(server,)).warnings


def test_a_custom_release_has_the_holes_of_its_core() -> None:
    """The release's base row does not count, because that row has other repairs and drivers."""
    old = Release(name="ours", derived_from="26.07", triton_core="2.57.0")
    assert routed(old) == ["known-hole"]
    assert routed(Release(name="ours", derived_from="26.07")) == []


@pytest.mark.parametrize(
    ("core", "row", "release"),
    [
        ("2.57.0", "26.07", "25.04"),
        ("2.59.0", "25.07", "25.07"),
        ("2.59.0", "26.07", "25.06"),
        ("2.59.1", "26.07", "25.06"),
        ("2.99.0", "26.07", "26.08"),
        ("1.0.0", "26.07", "24.04"),
        ("ours", "26.07", ""),
    ],
)
def test_a_core_version_is_judged_as_the_oldest_release_it_may_be(core: str, row: str, release: str) -> None:
    assert release_of_core(core, row) == release


def test_a_pinned_driver_with_holes_is_a_note() -> None:
    noted = [
        sentence for sentence in plan(driver=Driver(version="580.95.05")).warnings if "driver 580.95.05" in sentence
    ]
    assert [
        sentence.startswith("driver 580.95.05: known holes for a local user (CVE-2025-33219, ") for sentence in noted
    ] == [True]


@pytest.mark.parametrize(("days", "is_old"), [(OLD_AFTER_DAYS, False), (OLD_AFTER_DAYS + 1, True)])
def test_an_old_table_says_so_in_the_plan_and_on_a_host(days: int, is_old: bool) -> None:
    today = READ + timedelta(days=days)
    notes = plan(around=replace(AROUND, today=today)).warnings
    sentence = f"the table of known holes was read on 2026-11-25, {days} days ago; update the clone: git pull"
    assert (sentence in notes) == is_old
    findings = examined({}, replace(WANTED, today=today, after=0.0))
    assert ("holes-unread" in [finding.id for finding in findings]) == is_old


def test_the_table_was_not_read_in_the_future() -> None:
    assert date(2026, 11, 25) == READ
