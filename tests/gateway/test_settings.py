"""The settings file: read strictly, and the tensors that the gateway names are those of the LLM's contract."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from deploy.catalog import CHECKPOINTS
from deploy.models import llm_contract
from deploy.spec import LLM
from gateway.call_formats import PARSERS
from gateway.fields import FieldError, Fields
from gateway.json_body import Bounds, JsonError, parsed
from gateway.sampling import sampling_of
from gateway.sampling_numbers import SAMPLING_NUMBERS
from gateway.settings import REASONING_PARSERS, TOOL_PARSERS, Limits, read, settings_of
from tests.gateway.asking import settings

SALTED = {"kind": "llm", "servers": ["host-0/main"], "context_tokens": 1, "files": "/", "salts": True}


@pytest.fixture
def content_of_file(tmp_path: Path) -> dict[str, Any]:
    return settings(["127.0.0.1:8001"], tmp_path, None)


def test_settings_are_read_from_their_file(tmp_path: Path, content_of_file: dict[str, Any]) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(content_of_file))
    settings_read = read(file)
    assert settings_read.models["bge"].triton_model == "bge_v2"
    assert settings_read.models["llama"].context_tokens == 200
    assert settings_read.servers["host-0/main"].grpc == "127.0.0.1:8001"
    assert (settings_read.keys_file, settings_read.limits) == ("", Limits())


@pytest.mark.parametrize("content", ["", "short\n"])
def test_a_malformed_secret_is_refused_and_a_secret_is_never_shown(
    tmp_path: Path, content_of_file: dict[str, Any], content: str
) -> None:
    (tmp_path / "salt").write_text(content)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(content_of_file | {"salt_file": str(tmp_path / "salt")}))
    with pytest.raises(ValueError, match="is no secret of 64 characters"):
        read(file)
    (tmp_path / "salt").write_text("5a17" * 16)
    assert (read(file).salt, "5a17" in repr(read(file))) == (b"5a17" * 16, False)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"colour": 1}, "colour"),
        ({"limits": {"body": 1}}, "limits.body"),
        ({"limits": {"nesting": 0}}, "limits.nesting"),
        (
            {"servers": {"a": {"grpc": "x", "ready_url": "ftp://x:1/"}}, "models": {}, "aliases": {}},
            "servers.a.ready_url",
        ),
        ({"aliases": {"a": {"model": "b"}}}, "aliases.a.model"),
        ({"aliases": {"a": {"model": "bge", "task": "search_query"}}}, "aliases.a.task"),
        ({"aliases": {"bge": {"model": "bge"}}}, "bge"),
        ({"models": {"m": {"kind": "llm", "servers": ["nowhere"]}}}, "models.m.servers"),
        ({"models": {"m": SALTED}, "aliases": {}}, "salt_file"),
        ({"models": {"m": {"kind": "llm", "servers": ["host-0/main"], "files": "/"}}}, "models.m.context_tokens"),
    ],
)
def test_malformed_settings_are_refused_as_a_whole(
    content_of_file: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    with pytest.raises(FieldError) as caught:
        settings_of(content_of_file | change)
    assert caught.value.param == param


def test_every_tensor_of_a_chat_is_in_the_llms_contract() -> None:
    """Names, types and dimensions are compared; no tensor has a batch dimension."""
    fields = {
        "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "seed": 1, "stop": "x", "n": 2, "min_tokens": 1,
        "frequency_penalty": 1, "presence_penalty": 1, "repetition_penalty": 1.5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    }  # fmt: skip
    known = {tensor.name: tensor for tensor in llm_contract.INPUTS}
    for tensor in replace(sampling_of(Fields(fields), {}, 100), logprobs=2).tensors(10):
        assert tensor.datatype == known[tensor.name].type.replace("STRING", "BYTES")
        assert len(tensor.shape) == len(known[tensor.name].dims)


def test_every_sampling_number_is_an_input_of_the_slot() -> None:
    known = {tensor.name: tensor.type for tensor in llm_contract.INPUTS}
    types = {name: "INT32" if number.is_whole else "FP32" for name, number in SAMPLING_NUMBERS.items()}
    assert {name: known.get(f"sampling_param_{name}") for name in types} == types
    fractions = {name.removeprefix("sampling_param_") for name, kind in known.items() if kind == "FP32"}
    assert fractions <= types.keys(), "an input that no client can reach"


def test_every_parser_that_an_inventory_may_name_is_known_here() -> None:
    hints = get_type_hints(LLM)
    assert get_args(hints["tool_parser"]) == ("auto", "none", *TOOL_PARSERS)
    assert get_args(hints["reasoning_parser"]) == ("auto", "none", *REASONING_PARSERS)
    assert {row.tool_parser for row in CHECKPOINTS.values()} <= {"", *TOOL_PARSERS}
    assert {row.reasoning_parser for row in CHECKPOINTS.values()} <= {"", *REASONING_PARSERS}
    assert set(PARSERS) <= set(TOOL_PARSERS)


def bounds(nesting: int = 64, brackets: int = 100, marks: int = 200) -> Bounds:
    return Bounds(nesting, brackets, marks)


def test_brackets_in_strings_are_not_counted() -> None:
    assert parsed(rb'{"a": "[[[[[[[", "b": [[1]]}', bounds(3, 3, 6)) == {"a": "[[[[[[[", "b": [[1]]}
    assert parsed(rb'{"a\\": "[[\"[[[[[\\"}', bounds(2, 2, 2)) == {"a\\": '[["[[[[[\\'}


def test_depth_is_counted_to_the_limit_and_no_further() -> None:
    assert parsed(b"[" * 64 + b"]" * 64, bounds())
    with pytest.raises(JsonError, match="deeper than 64"):
        parsed(b"[" * 65 + b"]" * 65, bounds())


def test_a_near_name_is_offered() -> None:
    fields = Fields({"temprature": 1})
    fields.number("temperature", 0, 2)
    with pytest.raises(FieldError, match="did you mean `temperature`"):
        fields.close()
