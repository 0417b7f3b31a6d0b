"""The encoders that can be planned are the served encoders, and a plan has the prefixes of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, architecture_as, kind_of
from deploy.catalog.architectures import ALSO_ENCODERS
from deploy.spec import Embedder, Gateway
from encoders import families
from encoders.settings import TASKS
from tests.unit.published import locked
from tests.unit.samples import AROUND, main, pinned, plan, refusals


def test_every_family_that_the_server_knows_can_be_planned_and_no_others() -> None:
    rows = [row for row in (*ARCHITECTURES.values(), *ALSO_ENCODERS.values()) if row.python]
    assert {row.name for row in rows if row.kind == "embedder"} == families.EMBEDDERS.keys()
    assert {row.name for row in rows if row.kind == "reranker"} == families.RERANKERS.keys()


def test_every_encoder_of_the_catalog_can_be_fetched_and_has_prefixes_clients_can_ask_for() -> None:
    rows = [row for row in CHECKPOINTS.values() if kind_of(row) != "llm"]
    assert len(rows) >= 14
    for row in rows:
        architecture = architecture_as(row.shape.architecture, kind_of(row))
        assert architecture and architecture.python and set(row.prefixes) <= set(TASKS), row.name
        assert bool(row.dimensions) == (architecture.kind == "embedder"), row.name


E5 = {"search_query": "query: ", "search_document": "passage: "}


def embedder(checkpoint: str, **changes: Any) -> Embedder:
    tokens = min(512, CHECKPOINTS[checkpoint].max_tokens)
    return Embedder(name="mine", checkpoint=checkpoint, weights=pinned(checkpoint), max_tokens=tokens, **changes)


@pytest.mark.parametrize(
    ("model", "prefixes"),
    [
        (embedder("multilingual-e5-large"), E5),
        (embedder("arctic-embed-l-v2"), {"search_query": "query: ", "search_document": ""}),
        (embedder("all-minilm-l6-v2", prefixes=E5, default_task="search_query"), E5),
        (embedder("bge-m3"), {}),
        (embedder("labse"), {}),
    ],
    ids=lambda value: getattr(value, "checkpoint", ""),
)
def test_server_and_gateway_know_the_prefixes_of_an_embedder(model: Embedder, prefixes: dict[str, str]) -> None:
    made = plan(gateway=Gateway(), **main(model)).slices[0]
    settings = made.servers[0].models[0].settings
    assert json.loads(str(settings.get("prefixes", "{}"))) == prefixes
    assert made.gateway and made.gateway.models[0].tasks == tuple(prefixes)
    assert [alias.name for alias in made.gateway.aliases] == [f"mine:{word}" for word in ("query", "document")][
        : len(prefixes)
    ]


def test_a_repository_of_pickles_alone_can_be_fetched_and_keeps_none() -> None:
    (weights,) = plan(**main(embedder("bge-m3"))).slices[0].weights
    assert {"pytorch_model.bin", "model.safetensors", "modules.json"} <= set(weights.files)


@pytest.mark.parametrize(("checkpoint", "least"), [("nomic-embed-text-v2-moe", "256"), ("all-minilm-l6-v2", "384")])
def test_a_plan_says_how_far_a_vector_may_be_shortened(checkpoint: str, least: str) -> None:
    made = plan(**main(embedder(checkpoint))).slices[0]
    assert made.servers[0].models[0].settings["least_dimensions"] == least


def test_a_step_behind_pooling_that_is_not_computed_is_refused_before_a_host_is_touched() -> None:
    files = replace(locked("labse"), files=(*locked("labse").files, "3_LSTM/config.json"))
    around = replace(AROUND, locked={"x/labse": files})
    (problem,) = refusals(around=around, **main(Embedder("x/labse", max_tokens=256)))
    assert (problem.kind, problem.facts["seen"]) == ("step-not-computed", "3_LSTM/config.json")
