"""Schemas and patterns of huge unrolled size are refused before any engine gets them; ordinary ones are accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.sampling import MOST_SCHEMA_SIZE
from gateway.schema_size import SchemaError, pattern_size, schema_size
from tests.gateway.asking import CHAT, chat, in_loop, running_gateway
from tests.gateway.weights import TEMPLATE

DOUBLED = {f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
EXPLODING: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 10**9},
    {"type": "string", "minLength": 1e12},
    {"type": "array", "minItems": 1000, "items": {"type": "string", "maxLength": 1000}},
    {"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"},
    {"type": "string", "pattern": "a{99999999999999999999}"},
    {"type": "string", "pattern": "(a{,99999}){,99999}"},
    {"type": "string", "pattern": "a{ 1 , 999999999 }"},
    {"type": "object", "patternProperties": {"^(x{1000}){1000}$": {}}},
    {"$ref": "#/$defs/d0", "$defs": DOUBLED | {"d40": {"type": "string"}}},
]
ORDINARY: list[dict[str, Any]] = [
    {},
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10_000}, "age": {"type": "integer"}}},
    {"type": "string", "pattern": "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$"},
    {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}},
    {"$ref": "#"},
    {"$ref": "#/nowhere"},
    {"type": "array", "maxItems": 100, "items": {"enum": ["a", "b"]}},
    {"type": "string", "pattern": "((((["},
    {"type": "string", "pattern": "a{}b{,}c{x}{ {"},
    {"$ref": 5, "pattern": 5, "maxLength": "x", "patternProperties": [], "minItems": True},
]


CHAINED = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1500)}
REFUSED = {
    "deep": json.dumps({"$ref": "#/$defs/d0", "$defs": CHAINED}),
    "infinite": '{"type": "string", "minLength": 1e999}',
    "minus infinite": '{"type": "string", "maxItems": -1e999}',
    "huge": '{"type": "string", "minLength": 1' + "0" * 4000 + "}",
    "of a host": '{"$ref": "http://169.254.169.254/latest/meta-data"}',
    "of a file": '{"items": {"$ref": "file:///etc/passwd"}}',
    "of a name": '{"$dynamicRef": "other"}',
    "crossing": json.dumps({
        "$ref": "#/$defs/d0",
        "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(30)]} for n in range(30)},
    }),
    "named in percent": '{"$ref": "#/%24defs/a", "$defs": {"a": {"minLength": 999999999}}}',
    "named by its place": '{"$ref": "#/$defs/a/anyOf/0", "$defs": {"a": {"anyOf": [{"minLength": 999999999}]}}}',
    "definitions that are none": '{"$defs": [{"minLength": 999999999}], "items": {"$ref": "#/$defs/0"}}',
    "a long pattern": json.dumps({"pattern": "a{2}" * 5000}),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
@in_loop
async def test_an_unbounded_schema_or_external_reference_is_refused(tmp_path: Path, reason: str) -> None:
    """The gateway answers 400, for the schema of a response format and for that of a tool."""
    schema, head = REFUSED[reason], '{"model": "llama", "messages": [{"role": "user", "content": "x"}], '
    form = '{"type": "json_schema", "json_schema": {"name": "x", "schema": ' + schema + "}}"
    tools = '[{"type": "function", "function": {"name": "x", "parameters": ' + schema + "}}]"
    template = "{{ tools }}" + TEMPLATE
    async with running_gateway(tmp_path, llm={"tool_parser": "hermes"}, template=template) as front:
        for rest in (f'"response_format": {form}}}', f'"tool_choice": "required", "tools": {tools}}}'):
            answer = await front.ask(CHAT, (head + rest).encode())
            assert (answer.status, answer.error["type"]) == (400, "invalid_request_error"), answer.body
        assert front.triton.requests == []


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_cycle_has_one_size_wherever_it_is_entered(first: str) -> None:
    """An earlier version counted names in a cycle as 1 if it entered the cycle elsewhere."""
    cycle = {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}]},
        "b": {"maxItems": 1000, "items": {"properties": {"x": {"maxLength": 1000}, "a": {"$ref": "#/$defs/a"}}}},
    }
    assert schema_size({"$defs": cycle, "anyOf": [{"$ref": f"#/$defs/{first}"}]}) > MOST_SCHEMA_SIZE
    both = {"$defs": cycle, "anyOf": [{"$ref": f"#/$defs/{first}"}, {"$ref": "#/$defs/b"}, {"$ref": "#/$defs/a"}]}
    assert schema_size(both) > 2 * schema_size({"$defs": cycle, "anyOf": [{"$ref": f"#/$defs/{first}"}]})


def test_a_class_without_an_end_is_read_once() -> None:
    """An earlier version read from each bracket to the pattern's end: 64 KiB of brackets took minutes."""
    assert pattern_size("[" * 60_000) == 60_000


def test_definitions_are_counted_at_each_reference() -> None:
    large = {"type": "string", "maxLength": 1000}
    assert schema_size({"$defs": {"large": large}}) == 1
    assert schema_size({"$defs": {"large": large}, "$ref": "#/$defs/large"}) > 1000


def test_a_reference_to_another_document_has_no_size() -> None:
    with pytest.raises(SchemaError, match="begin with `#/`"):
        schema_size({"$ref": "https://json-schema.org/draft/2020-12/schema"})


@pytest.mark.parametrize("schema", EXPLODING)
def test_a_schema_of_few_bytes_that_makes_a_huge_grammar_is_detected(schema: dict[str, Any]) -> None:
    assert schema_size(schema) > MOST_SCHEMA_SIZE


@pytest.mark.parametrize("schema", ORDINARY)
def test_an_ordinary_schema_is_small(schema: dict[str, Any]) -> None:
    assert schema_size(schema) <= MOST_SCHEMA_SIZE // 3


@pytest.mark.parametrize(
    ("pattern", "size"),
    [("abc", 3), ("a{3}", 3), ("[abc]{2,4}", 4), ("(ab){10}", 30), ("a{2}b{3}", 5), (r"\{5\}{2}", 4), ("a{,5}", 5)],
)
def test_repetitions_multiply_only_their_own_subpattern(pattern: str, size: int) -> None:
    assert pattern_size(pattern) == size


@in_loop
async def test_a_schema_that_explodes_is_refused_by_its_name(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        for schema in EXPLODING:
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            answer = await front.ask(CHAT, chat(response_format=form))
            assert (answer.status, answer.error["param"]) == (400, "response_format.json_schema.schema")
        assert front.triton.requests == []
