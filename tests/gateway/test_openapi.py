"""`/openapi.json` describes every path, for the caller's models and the gateway's limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.app import ROUTES
from gateway.openapi import STATUSES, document
from gateway.settings import Limits
from tests.gateway.asking import OTHER_KEY, chat, in_loop, running_gateway

FILES = Path(__file__).parents[2] / "files/gateway"
MODELS = (("bge", "reranker"), ("llama", "llm"), ("nomic", "embedder"))


def described(models: tuple[tuple[str, str], ...] = MODELS, dimensions: int = 4, limits: Limits | None = None) -> Any:
    return json.loads(document(tuple(ROUTES.items()), models, dimensions, limits or Limits(), True))


def references(value: object) -> Iterator[str]:
    """Yields the target of each reference in a document."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_path_is_described_with_its_method_and_errors() -> None:
    paths = described()["paths"]
    for path, route in ROUTES.items():
        operation = paths[path + "{name}" * path.endswith("/")][route.method.lower()]
        assert operation["responses"]["200"]["content"]["application/json"]["schema"], path
        assert ("requestBody" in operation) == (route.method == "POST"), path
        assert (route.kind != "") == (route.method == "POST"), path
        assert f"/{route.error}" in json.dumps(operation["responses"]["400"]), path


def test_every_status_of_an_error_is_described() -> None:
    """499 is for the audit alone: its client has gone."""
    raised = {
        int(status) for file in FILES.glob("*.py") for status in re.findall(r"ApiError\(\s*(\d{3})", file.read_text())
    }
    assert raised - set(STATUSES) == {499}
    statuses = set(described()["paths"]["/v1/models"]["get"]["responses"])
    assert statuses == {"200", *map(str, STATUSES)}


def test_errors_of_paths_of_two_vendors_have_either_form() -> None:
    for path in ("/v1/models", "/v1/models/{name}", "/info"):
        refused = json.dumps(described()["paths"][path]["get"]["responses"]["404"])
        assert "AnthropicError" in refused and refused.count("Error") > 1


def test_names_of_operations_differ_and_references_have_a_target() -> None:
    whole = described()
    names = [operation["operationId"] for path in whole["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names) == len(ROUTES)
    for target in references(whole):
        _, _, folder, name = target.split("/")
        assert name in whole["components"][folder], target


def test_every_schema_is_used() -> None:
    """A shape that no path and no other shape names would be a dead row."""
    whole = described()
    assert {target.split("/")[3] for target in references(whole)} == {
        *whole["components"]["schemas"],
        *whole["components"]["responses"],
    }


def test_limits_and_dimensions_are_those_of_the_settings() -> None:
    whole = described(dimensions=768, limits=Limits(inputs=7, documents=9))
    schemas = whole["components"]["schemas"]
    embeddings = schemas["Embeddings"]["properties"]
    assert embeddings["dimensions"]["anyOf"][0]["maximum"] == 768
    assert embeddings["input"]["anyOf"][1]["maxItems"] == 7
    assert schemas["Rerank"]["properties"]["documents"]["maxItems"] == 9


def test_a_kind_without_models_takes_any_name() -> None:
    schemas = described((("bge", "reranker"),))["components"]["schemas"]
    assert (schemas["reranker"], schemas["llm"]) == ({"enum": ["bge"]}, {"type": "string"})


@in_loop
async def test_a_client_sees_the_models_of_its_key_alone(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        every, few = await front.ask("/openapi.json"), await front.ask("/openapi.json", key=OTHER_KEY)
        nobody = await front.ask("/openapi.json", key=None)
    schemas = every.json()["components"]["schemas"]
    assert schemas["llm"] == {"enum": ["gpt-4o", "llama"]}
    assert schemas["embedder"] == {"enum": ["nomic", "nomic:query"]}
    assert few.json()["components"]["schemas"]["model"] == {"enum": ["bge"]}
    assert b"llama" not in few.body and b"nomic" not in few.body
    assert nobody.status == 401


@in_loop
async def test_the_document_is_made_once_for_the_same_models(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.ask("/openapi.json")
        made = document.cache_info().misses
        await front.ask("/openapi.json")
    assert document.cache_info().misses == made


@in_loop
async def test_without_keys_the_document_demands_none(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, has_keys=False) as front:
        answer = await front.ask("/openapi.json", key=None)
    assert (answer.status, answer.json()["security"]) == (200, [])


@in_loop
async def test_a_query_of_white_space_is_outside_of_the_schema(tmp_path: Path) -> None:
    """Rerankers refuse it: without the pattern, a fuzzer's requests were mostly refused (2026-11-28)."""
    schemas = described()["components"]["schemas"]
    for name in ("Rerank", "TeiRerank"):
        assert schemas[name]["properties"]["query"]["pattern"] == r"\S"
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/rerank", {"model": "bge", "query": " ", "documents": ["a"]})
    assert answer.status == 400


@pytest.mark.parametrize("tools", ["x", [5], [None]])
@in_loop
async def test_tools_that_are_no_objects_are_refused_even_if_none_may_be_called(tmp_path: Path, tools: object) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/chat/completions", chat(tools=tools, tool_choice="none"))
    assert (answer.status, answer.error["param"].startswith("tools")) == (400, True)


@in_loop
async def test_an_empty_encoder_name_counts_as_absent_in_the_schema_too(tmp_path: Path) -> None:
    schemas = described()["components"]["schemas"]
    for name in ("Embeddings", "TeiEmbed", "TeiRerank"):
        assert {"enum": [""]} in schemas[name]["properties"]["model"]["anyOf"][0]["anyOf"]
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/embed", {"model": "", "inputs": "a"})
    assert answer.status == 200
