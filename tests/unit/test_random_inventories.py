"""Any object anywhere in an inventory ends in a refusal, and no accepted plan is absurd."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.plain_judge import absurdities
from tests.unit.random_inventories import BASES, RandomInventory, changed, fault_of, planned, random_inventory
from tests.unit.unexpected_values import MADE, SECRET, VALUES


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_any_inventory_is_refused_in_words_or_planned_sensibly(draw: random.Random) -> None:
    """Objects, numbers and texts in unexpected places; `python -m tests.unit.random_inventories` tries a million."""
    verdict, fault = fault_of(random_inventory(draw.choice))
    assert not fault, verdict


@pytest.mark.parametrize("key", ["machine", "servers", "release", "gateway", "docker", "ssh_port", "triton_settings"])
def test_any_object_at_the_top_of_the_data_is_refused_in_words(key: str) -> None:
    """Every object is tried, so that the test does not depend on a draw."""
    _name, hosts = BASES[0]
    for value in (*VALUES, *(make() for make in MADE)):
        changed_hosts = {name: {**data, key: value} for name, data in hosts.items()}
        assert fault_of(RandomInventory(changed_hosts))[1] == "", (key, type(value))


def test_good_inventories_are_planned() -> None:
    """The inventories are refused for their unexpected values only: without these they are planned."""
    assert [name for name, hosts in BASES if fault_of(RandomInventory(hosts)) != ("planned", "")] == []


def test_each_random_inventory_changes_one_place() -> None:
    """A draw that always takes the last item changes the deepest place."""
    assert changed({"a": (1, 2)}, lambda items: list(items)[-1]) != {"a": (1, 2)}


def plan_of(name: str) -> dict[str, Any]:
    """The plan of a good inventory, as JSON."""
    made: dict[str, Any] = json.loads(json.dumps(planned(dict(BASES)[name]).to_json()))
    return made


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("hosts", "h100-01", "machine", "gpus"), 0, "0 GPUs"),
        (("hosts", "h100-01", "servers", 0, "http_port"), 22, "SSH's port"),
        (("hosts", "h100-01", "servers", 0, "grpc_port"), 8000, "a port twice"),
        (("hosts", "h100-01", "servers", 0, "stop_seconds"), 90_000_000, "stop_seconds is 90000000"),
        (("hosts", "h100-01", "servers", 0, "models"), [], "has no models"),
        (("hosts", "h100-01", "gpu_mib"), 100, "on a GPU of 100 MiB"),
        (("hosts", "h100-01", "hub", "endpoint"), f"http://{SECRET}@x", "shows a secret"),
        (("waves",), [["h100-01"], ["h100-01"]], "in two waves"),
    ],
)
def test_the_independent_check_finds_absurd_plans(place: tuple[str | int, ...], value: Any, sentence: str) -> None:
    plan = plan_of("whole")
    inside: Any = plan
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    assert sentence in "; ".join(absurdities(plan, SECRET))
