"""`/openapi.json` describes every path, for the caller's models and the gateway's limits."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.app import ROUTES
from gateway.fields import Fields
from gateway.openapi import STATUSES, document
from gateway.settings import Limits
from gateway.unsupported import CHATS_OWN, ONE_TEXT
from tests.gateway.asking import OTHER_KEY, chat, in_loop, running_gateway
from tests.gateway.schemas import outside
from tests.gateway.test_tools import HERMES

FILES = Path(__file__).parents[2] / "files/gateway"
MODELS = (("bge", "reranker"), ("llama", "llm"), ("nomic", "embedder"))

HELLO = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "llama", "messages": HELLO},
    "/v1/completions": {"model": "llama", "prompt": "hello"},
    "/v1/responses": {"model": "llama", "input": "hello"},
    "/v1/responses/input_tokens": {"model": "llama", "input": "hello"},
    "/v1/embeddings": {"model": "nomic", "input": "hello"},
    "/v1/messages": {"model": "llama", "messages": HELLO, "max_tokens": 5},
    "/v1/messages/count_tokens": {"model": "llama", "messages": HELLO},
    "/v1/chat": {"model": "llama", "message": "hello"},
    "/v1/embed": {"model": "nomic", "texts": ["hello"]},
    "/v1/rerank": {"model": "bge", "query": "a", "documents": ["a"]},
    "/v1/tokenize": {"model": "llama", "text": "hello"},
    "/v1/detokenize": {"model": "llama", "tokens": [1]},
    "/v2/chat": {"model": "llama", "messages": HELLO},
    "/v2/embed": {"model": "nomic", "texts": ["hello"], "input_type": "search_query"},
    "/v2/rerank": {"model": "bge", "query": "a", "documents": ["a"]},
    "/v1/score": {"model": "bge", "text_1": "a", "text_2": "b"},
    "/tokenize": {"model": "llama", "messages": HELLO},
    "/detokenize": {"model": "llama", "tokens": [1]},
    "/embed": {"inputs": "hello"},
    "/rerank": {"query": "a", "texts": ["a"]},
}
TYPED = ("has", "text", "flag", "whole", "number", "items", "texts", "inner")
"""Functions that read a field for its value; refused and ignored fields are read by others."""
UNDECLARED = {
    **dict.fromkeys(("enable_thinking", "thinking"), "read only for a template with such a switch"),
    **dict.fromkeys(("task", "input_type"), "the choices are those of the model"),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_json_object"), "older"),
    "random_seed": "another server's `seed`",
    **dict.fromkeys(("chat_template_kwargs", "reasoning_effort"), "described with chats"),
    "thread": "refused",
}
"""Fields that the document leaves out, and why."""


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
    """499 is only for the audit: its client has gone."""
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


def reading(name: str) -> Any:
    """Returns a function of `Fields` that also notes the field in the object's `names`."""

    def read(self: Any, field: str, *arguments: Any, **named: Any) -> Any:
        self.names.add(field)
        return getattr(Fields, name)(self, field, *arguments, **named)

    return read


@in_loop
async def test_every_field_that_a_path_reads_is_in_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of a dialect also reads a chat's fields, and a count of tokens the fields of the request that it
    counts."""
    noting: Any = type("Noting", (Fields,), {name: reading(name) for name in TYPED})
    made: list[Any] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        fields = noting.__new__(noting)
        fields.names = set()
        made.append(fields)
        fields.__init__(*arguments, **named)
        return fields

    assert set(BODIES) == {path for path, route in ROUTES.items() if route.method == "POST"}
    schemas = described()["components"]["schemas"]
    async with running_gateway(tmp_path) as front:
        monkeypatch.setattr("gateway.request.Fields", noted)
        missing = {}
        for path, body in BODIES.items():
            made.clear()
            answer = await front.ask(path, body)
            assert answer.status == 200, (path, answer.body)
            counted = ROUTES.get(path.rpartition("/")[0], ROUTES[path])
            names = {*ROUTES[path].body.split("|"), *counted.body.split("|")}
            declared = {field for name in names for field in schemas[name]["properties"]}
            own = {*CHATS_OWN, *ONE_TEXT} if len(made) > 1 else set()
            missing[path] = made[0].names - declared - own - set(UNDECLARED)
    assert {path: names for path, names in missing.items() if names} == {}


@in_loop
async def test_a_value_outside_of_its_schema_is_refused_by_its_name(tmp_path: Path) -> None:
    accepted = []
    async with running_gateway(tmp_path, llm=HERMES) as front:
        whole = (await front.ask("/openapi.json")).json()
        shared = whole["components"]["schemas"]
        for path, body in BODIES.items():
            schema = whole["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            names = {field for name in ROUTES[path].body.split("|") for field in shared[name]["properties"]}
            for name, value in itertools.product(
                sorted(names), (True, 5, -7, 1.5, "x", [5], [None], [[]], {}, "x" * 5000)
            ):
                if outside(body | {name: value}, schema, shared):
                    answer = await front.ask(path, body | {name: value})
                    if answer.status not in (400, 404) or name not in answer.body.decode():
                        accepted.append((path, name, value, answer.body))
    assert not accepted
