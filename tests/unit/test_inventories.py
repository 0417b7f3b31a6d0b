"""Every shipped inventory has a reviewed plan: a difference here shows the changes of a re-run."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory
from deploy.planning.plan import Plan, make_plan
from deploy.reports.plan import plan_report
from tests.unit.golden import same_as_golden
from tests.unit.samples import AROUND
from tests.unit.test_report import printed

FOLDER = Path(__file__).parents[2] / "inventories"
ELSEWHERE = ("from_ansible", "from_terraform", "h100", "mig", "rehearsal")
"""Inventories that other tests cover, or that are not shipped."""

NAMES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in ELSEWHERE)
EACH = pytest.mark.parametrize("name", NAMES)


@cache
def shipped(name: str) -> Plan:
    """The plan of a shipped inventory."""
    return make_plan(Fleet.of(load_inventory(str(FOLDER / f"{name}.py"), {})), AROUND)


def test_the_promised_inventories_exist() -> None:
    """Ten inventories exist, beside the first inventory and the inventory with a cut GPU."""
    assert NAMES == [
        "awq_l40s",
        "fleet",
        "h100_engine",
        "h100_vllm",
        "h100x4_llama70b_128k",
        "h100x4_llama70b_chat",
        "h100x4_llama70b_eagle",
        "h100x8_replicas",
        "mixtral_ep",
        "two_lengths",
    ]


@EACH
def test_a_shipped_inventory_has_this_plan(name: str) -> None:
    """The whole plan, with build commands as strings."""
    same_as_golden(f"{name}.plan.json", json.dumps(shipped(name).to_json(), indent=2, ensure_ascii=False) + "\n")


@EACH
def test_a_shipped_inventory_prints_this_plan(name: str) -> None:
    """The printed plan is the page that an operator reads before approval."""
    same_as_golden(f"{name}.plan.txt", printed(plan_report(shipped(name))))


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("awq_l40s", ["engine int4_awq"]),
        ("fleet", ["pytorch mxfp4"] * 6 + ["pytorch bfloat16"] * 2),
        ("h100_engine", ["engine fp8"]),
        ("h100_vllm", ["vllm fp8"]),
        ("h100x4_llama70b_128k", ["engine fp8", "engine fp8"]),
        ("h100x4_llama70b_chat", ["engine fp8"]),
        ("h100x4_llama70b_eagle", ["pytorch fp8"]),
        ("h100x8_replicas", ["pytorch mxfp4"] * 8),
        ("mixtral_ep", ["pytorch bfloat16"]),
        ("two_lengths", ["engine fp8", "engine fp8"]),
    ],
)
def test_llms_of_a_shipped_inventory_have_this_path_and_precision(name: str, paths: list[str]) -> None:
    """Path and precision of every LLM, in order."""
    servers = [server for host in shipped(name).slices for server in host.servers]
    models = [model for server in servers for model in server.models if model.kind == "llm"]
    assert [f"{model.path} {model.precision}" for model in models] == paths


def test_sixteen_long_users_fit_h200_and_eleven_h100() -> None:
    """Sequences of 131,072 tokens held at once."""
    sequences = [host.servers[0].models[0].full_context_sequences for host in shipped("h100x4_llama70b_128k").slices]
    assert sequences == [11, 16]


def test_the_chat_pattern_holds_its_128_conversations() -> None:
    """The cache has 1,461,632 tokens; a conversation takes 10,240."""
    assert shipped("h100x4_llama70b_chat").slices[0].servers[0].models[0].full_context_sequences >= 128


def test_eight_replicas_share_one_copy_of_the_weights() -> None:
    """Each of the three models has a single directory on the host."""
    assert len(shipped("h100x8_replicas").slices[0].weights) == 3


def test_a_changed_inventory_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of one relative name, as after `pin` changed one: pyinfra keeps compiled code by that name."""
    for directory, host in (("before", "a"), ("after", "b")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "mine.py").write_text(f'hosts = ["{host}"]\n')
        monkeypatch.chdir(tmp_path / directory)
        assert [loaded.name for loaded in load_inventory("mine.py", {})] == [host]
