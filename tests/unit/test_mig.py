"""Cutting GPUs into MIG instances: the catalog's geometry, and the plan's refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import pytest

from deploy.catalog import GPUS
from deploy.catalog.mig import PROFILES, MigProfile, places, profiles_of
from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory
from deploy.planning.plan import Plan, make_plan
from deploy.reports.plan import plan_report
from deploy.spec import Driver
from tests.unit.golden import same_as_golden
from tests.unit.samples import AROUND, EMBEDDER, GPT_OSS, LLAMA, MACHINE, MAIN, RERANKER, refusals, sources
from tests.unit.test_report import printed
from tests.unit.wrong import Wrong

INVENTORY = Path(__file__).parents[2] / "inventories" / "mig.py"
HALVES = ("4g.40gb", "3g.40gb")
APART = {"http_port": 8100, "grpc_port": 8101, "metrics_port": 8102}
ONE = (replace(MAIN, models=(RERANKER,)),)
TWO = (
    replace(MAIN, name="llm", models=(LLAMA,), gpus=(0,)),
    replace(MAIN, name="encoders", models=(RERANKER, EMBEDDER), gpus=(1,), **APART),
)


def shipped() -> Plan:
    """The plan of inventories/mig.py."""
    return make_plan(Fleet.of(load_inventory(str(INVENTORY), {})), AROUND)


def cut(*profiles: str, gpu: str = "h100-80", servers: Any = ONE) -> dict[str, Any]:
    """Data of a host whose one GPU is cut."""
    return {"machine": replace(MACHINE, gpu=gpu, mig=profiles), "servers": servers}


def h100(*names: str) -> list[MigProfile]:
    """Rows of an H100 80GB."""
    return [PROFILES["h100-80", name] for name in names]


WRONG = {
    "an L40S cannot be cut": Wrong(cut("3g.40gb", gpu="l40s-48"), "mig-not-offered", "machine.mig"),
    "a profile of another card is offered the nearest": Wrong(cut("3g.47gb"), "mig-profile", "machine.mig"),
    "the full name of a profile is not its name": Wrong(cut("MIG 3g.40gb"), "mig-profile", "machine.mig"),
    "three half cards do not fit on one": Wrong(
        cut("3g.40gb", "3g.40gb", "1g.10gb"), "mig-does-not-fit", "machine.mig"
    ),
    "one instance may have media extensions": Wrong(cut("1g.10gb+me", "1g.10gb+me"), "mig-does-not-fit", "machine.mig"),
    "the larger instance comes first": Wrong(cut("3g.40gb", "4g.40gb"), "mig-order", "machine.mig"),
    "a server names an instance that is there": Wrong(
        cut(*HALVES, servers=(replace(MAIN, models=(RERANKER,), gpus=(2,)),)), "mig-index", 'servers["main"].gpus'
    ),
    "a server has one instance": Wrong(
        cut(*HALVES, servers=(replace(MAIN, models=(RERANKER,), gpus=(0, 1)),)), "mig-several", 'servers["main"].gpus'
    ),
    "an instance holds less than the card": Wrong(
        cut("1g.10gb", servers=(replace(MAIN, models=(GPT_OSS,)),)), "over-committed", 'servers["main"].models'
    ),
}


@pytest.mark.parametrize("promise", WRONG)
def test_the_partition_is_refused_with_this_message(promise: str) -> None:
    """The refusal's kind and place are fields; its text equals a reviewed file."""
    problems = refusals(**WRONG[promise].data)
    same_as_golden(f"mig/{promise.lower().replace(' ', '-')}.txt", "\n\n".join(map(str, problems)) + "\n")
    kinds = {(problem.kind, problem.facts["where"].removeprefix("h100-01: ")) for problem in problems}
    assert (WRONG[promise].kind, WRONG[promise].where) in kinds


def test_two_halves_with_a_server_each_are_accepted() -> None:
    """The LLM in one instance, the encoders in the other."""
    assert refusals(**cut(*HALVES, servers=TWO)) == []


def test_instances_of_the_second_gpu_count_on() -> None:
    """Two GPUs cut in two: 0 and 1 are of GPU 0, 2 and 3 of GPU 1."""
    data = cut(*HALVES, servers=(replace(MAIN, models=(RERANKER,), gpus=(3,)),))
    assert refusals(**data | {"machine": replace(data["machine"], gpus=2)}) == []


def test_instances_that_somebody_else_cuts_can_be_declared() -> None:
    """The plan notes that they must exist; preflight verifies it."""
    data = cut(*HALVES, servers=TWO) | {"driver": Driver(manage=False)}
    assert refusals(**data) == []
    planned = make_plan(Fleet.of(sources(**data)), AROUND)
    assert "each already cut into 4g.40gb + 3g.40gb" in printed(plan_report(planned))


@pytest.mark.parametrize(
    ("profiles", "starts"),
    [
        (("7g.80gb",), (0,)),
        (("4g.40gb", "3g.40gb"), (0, 4)),
        (("3g.40gb", "3g.40gb"), (0, 4)),
        (("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), (4, 0, 2, 3)),
        (("4g.40gb", "2g.20gb", "1g.10gb"), (0, 4, 6)),
        (("1g.20gb",) * 4, (0, 2, 4, 6)),
        (("1g.10gb",) * 7, (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_a_documented_combination_has_these_places(profiles: tuple[str, ...], starts: tuple[int, ...]) -> None:
    """The expected numbers are the first memory slices of the profiles, in the given order."""
    assert places(h100(*profiles)) == starts


@pytest.mark.parametrize(
    "profiles",
    [
        ("4g.40gb", "4g.40gb"),
        ("3g.40gb", "3g.40gb", "1g.10gb"),
        ("2g.20gb",) * 4,
        ("1g.20gb",) * 5,
        ("1g.10gb",) * 8,
        ("7g.80gb", "1g.10gb"),
    ],
)
def test_these_do_not_fit_together(profiles: tuple[str, ...]) -> None:
    """The instances have too much compute, too much memory, or no free starting place."""
    assert places(h100(*profiles)) is None


def test_a_place_is_found_whenever_there_is_one() -> None:
    """All selections of up to four are compared with every possible placement."""
    rows = profiles_of("h100-80")
    selections = [list(some) for size in (1, 2, 3, 4) for some in combinations_with_replacement(rows, size)]
    assert [(places(some) is not None) for some in selections] == [fits_somehow(some) for some in selections]


def fits_somehow(profiles: list[MigProfile]) -> bool:
    """True if no two overlap, and compute and the number of each profile are within their limits."""
    if sum(profile.compute_slices for profile in profiles) > 7 or any(
        profiles.count(profile) > profile.most for profile in profiles
    ):
        return False
    placements = (occupied(profiles, starts) for starts in product(*(profile.starts for profile in profiles)))
    return any(len(slices) == len(set(slices)) for slices in placements)


def occupied(profiles: list[MigProfile], starts: tuple[int, ...]) -> list[int]:
    """Memory slices, each as often as it is used."""
    pairs = zip(profiles, starts, strict=True)
    return [slice_ for profile, start in pairs for slice_ in range(start, start + profile.memory_slices)]


def test_every_card_with_profiles_is_in_the_catalog_of_gpus() -> None:
    """An inventory could not name a card that the catalog of GPUs lacks."""
    assert {gpu for gpu, _ in PROFILES} <= set(GPUS)


@pytest.mark.parametrize("gpu", sorted({gpu for gpu, _ in PROFILES}))
def test_instances_of_a_card_together_are_not_larger_than_it(gpu: str) -> None:
    """The largest number of each profile, with the MiB of the plan."""
    assert all(row.most * row.usable_mib <= GPUS[gpu].usable_mib for row in profiles_of(gpu))


def test_an_h100_has_its_drivers_mig_profiles() -> None:
    """The numbers were read from the card; 256 MiB of each are left out of plans."""
    listed = {row.name: (row.profile_id, row.most, row.total_mib) for row in profiles_of("h100-80")}
    assert listed == {
        "7g.80gb": (0, 1, 81_152),
        "4g.40gb": (5, 1, 40_448),
        "3g.40gb": (9, 2, 40_448),
        "2g.20gb": (14, 3, 20_096),
        "1g.20gb": (15, 4, 20_096),
        "1g.10gb": (19, 7, 9_984),
        "1g.10gb+me": (20, 1, 9_984),
    }


def test_the_shipped_inventory_has_this_plan() -> None:
    """The whole plan is compared: a difference shows the changes of a re-run."""
    same_as_golden("mig.plan.json", json.dumps(shipped().to_json(), indent=2, ensure_ascii=False) + "\n")


def test_the_shipped_inventory_prints_like_this() -> None:
    """Each server has the memory of its instance."""
    same_as_golden("mig.plan.txt", printed(plan_report(shipped())))


def test_each_server_attaches_its_own_instance() -> None:
    """The CDI name has the GPU, then the instance."""
    devices = {server.name: server.devices for server in shipped().slices[0].servers}
    assert devices == {"llm": ("nvidia.com/gpu=0:0",), "encoders": ("nvidia.com/gpu=0:1",)}
