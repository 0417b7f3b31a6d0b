"""Schemas and patterns that explode are refused before any engine sees them; ordinary ones are not."""

from pathlib import Path
from typing import Any

import pytest

from gateway.sampling import MOST_SCHEMA_SIZE
from gateway.schema_size import pattern_size, schema_size
from tests.gateway.asking import CHAT, chat, door, in_loop

DOUBLED = {f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
EXPLODING: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 10**9},
    {"type": "string", "minLength": 1e12},
    {"type": "array", "minItems": 1000, "items": {"type": "string", "maxLength": 1000}},
    {"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"},
    {"type": "string", "pattern": "a{99999999999999999999}"},
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
    {"$ref": 5, "pattern": 5, "maxLength": "x", "patternProperties": [], "minItems": True},
]


@pytest.mark.parametrize("schema", EXPLODING)
def test_a_schema_of_few_bytes_that_makes_a_huge_grammar_is_seen(schema: dict[str, Any]) -> None:
    assert schema_size(schema) > MOST_SCHEMA_SIZE


@pytest.mark.parametrize("schema", ORDINARY)
def test_an_ordinary_schema_is_small(schema: dict[str, Any]) -> None:
    assert schema_size(schema) <= MOST_SCHEMA_SIZE // 3


@pytest.mark.parametrize(
    ("pattern", "size"),
    [("abc", 3), ("a{3}", 3), ("[abc]{2,4}", 4), ("(ab){10}", 30), ("a{2}b{3}", 5), (r"\{5\}{2}", 4), ("a{,5}", 5)],
)
def test_repetitions_multiply_what_they_repeat_and_nothing_else(pattern: str, size: int) -> None:
    assert pattern_size(pattern) == size


@in_loop
async def test_a_schema_that_explodes_is_refused_by_its_name(tmp_path: Path) -> None:
    async with door(tmp_path) as front:
        for schema in EXPLODING:
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            answer = await front.ask(CHAT, chat(response_format=form))
            assert (answer.status, answer.error["param"]) == (400, "response_format.json_schema.schema")
        assert front.triton.asked == []
