"""Good inventories to start from, and helpers that plan or refuse them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from deploy.catalog import CHECKPOINTS
from deploy.inventory.fleet import Fleet
from deploy.planning.plan import Plan, make_plan
from deploy.refusals.errors import Refusal
from deploy.spec import LLM, Checkpoint, Embedder, Machine, Replay, Reranker, Server, Weights
from deploy.spec.surroundings import Surroundings
from deploy.validation.all_checks import judge

TODAY = date(2026, 11, 21)
AROUND = Surroundings(today=TODAY)

MACHINE = Machine(os="ubuntu-24.04", gpu="h100-80")


def pinned(checkpoint: str, **changes: Any) -> Weights:
    """The catalog's own commit of a checkpoint."""
    row = CHECKPOINTS[checkpoint]
    return replace(Weights.hub(row.repository, row.revision), **changes)


OWN = Weights.hub("example/mine", "b" * 40)
"""A repository that is not in the catalog, for a checkpoint whose numbers the inventory declares."""

GPT_OSS = LLM(name="gpt-oss-20b", checkpoint="gpt-oss-20b", weights=pinned("gpt-oss-20b"))
UNJUDGED = Replay.none(reason="no test of a plan builds an engine")
LLAMA = LLM(
    name="llama",
    checkpoint="llama-3.1-8b-instruct",
    weights=pinned("llama-3.1-8b-instruct"),
    replay=UNJUDGED,
)
ONE_B = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=1_235_814_400,
    layers=16,
    hidden=2048,
    heads=32,
    kv_heads=8,
    head_dim=64,
    intermediate=8192,
    vocabulary=128_256,
    positions=131_072,
)
"""Llama-3.2-1B, which the catalog does not have."""

RERANKER = Reranker(name="bge", checkpoint="bge-reranker-large", weights=pinned("bge-reranker-large"))
EMBEDDER = Embedder(name="nomic", checkpoint="nomic-embed-text-v2-moe", weights=pinned("nomic-embed-text-v2-moe"))
MAIN = Server(name="main", models=(RERANKER, EMBEDDER, GPT_OSS))


def main(*models: Any, **changes: Any) -> dict[str, Any]:
    """Data of a host whose one server has these models."""
    return {"servers": (replace(MAIN, models=models or MAIN.models, **changes),)}


@dataclass(frozen=True)
class Source:
    """The attributes of a pyinfra host that `Fleet.of` reads."""

    name: str
    data: dict[str, Any]
    groups: tuple[str, ...] = ()


def sources(*names: str, **data: Any) -> list[Source]:
    """An inventory of hosts with the same good data, with these changes; None removes a key. By default no gateway."""
    good = {"machine": MACHINE, "servers": (MAIN,), "release": "26.07"} | data
    kept = {"gateway": None} | {key: value for key, value in good.items() if value is not None}
    return [Source(name, dict(kept)) for name in names or ("h100-01",)]


def refusals(*inventory: Source, around: Surroundings = AROUND, **data: Any) -> list[Refusal]:
    """Every refusal of an inventory, or of one good host changed by `data`."""
    return judge(Fleet.of(inventory or sources(**data)), around)


def plan(*inventory: Source, around: Surroundings = AROUND, **data: Any) -> Plan:
    """The plan of an inventory, or of one good host changed by `data`."""
    return make_plan(Fleet.of(inventory or sources(**data)), around)
