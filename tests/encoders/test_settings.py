"""Parameters of config.pbtxt and options of a request: read completely, or refused with the name."""

import json
from pathlib import Path

import pytest

from encoders.embedding import Embedder
from encoders.errors import CheckpointError, RequestError
from encoders.options import EmbedOptions, RerankOptions, parse
from encoders.settings import Settings
from tests.encoders.checkpoints import on_cpu

SEARCH = ("search_query", "search_document")
BELOW_ONE = "config.pbtxt: max_items, max_batch_tokens and streams must be at least 1"


def test_parameters_become_settings_and_tritons_own_are_passed_over() -> None:
    parameters = {"model_path": "/w", "max_tokens": "256", "dtype": "bf16", "FORCE_CPU_ONLY_INPUT_TENSORS": "no"}
    assert Settings.of(parameters) == Settings(model_path="/w", max_tokens=256, dtype="bf16")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "config.pbtxt: parameter `model_path` is missing"),
        (
            {"model_path": "/w", "max_token": "8"},
            "config.pbtxt: unknown parameter `max_token`; did you mean `max_tokens`?",
        ),
        ({"model_path": "/w", "dtype": "int8"}, "config.pbtxt: dtype is `int8`; wanted one of fp32, fp16, bf16"),
        (
            {"model_path": "/w", "max_items": "many"},
            "config.pbtxt: max_items is `many`; wanted a whole number, 0 or more",
        ),
        ({"model_path": "/w", "max_items": "0"}, BELOW_ONE),
        ({"model_path": "/w", "streams": "0"}, BELOW_ONE),
        ({"model_path": "/w", "device": "cuda"}, "config.pbtxt: device is `cuda`; wanted `cpu` or `cuda:<index>`"),
    ],
)
def test_an_invalid_parameter_is_refused(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        Settings.of(parameters)
    assert str(caught.value) == message


def test_options_are_read_and_the_transports_own_are_passed_over() -> None:
    raw = '{"dimensions": 256, "task": "search_query", "binary_data_output": true, "priority": 1}'
    assert parse(raw, EmbedOptions) == EmbedOptions(task="search_query", dimensions=256)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            '{"dimension": 3}',
            "unknown option `dimension`; did you mean `dimensions`? options: task, normalize, dimensions, truncate",
        ),
        ('{"top_n": 3}', "unknown option `top_n`; options: task, normalize, dimensions, truncate"),
        ('{"dimensions": "3"}', "option `dimensions` must be a whole number, not str"),
        ('{"dimensions": true}', "option `dimensions` must be a whole number, not bool"),
        ('{"dimensions": 0}', "option `dimensions` must be at least 1"),
        ('{"normalize": 1}', "option `normalize` must be true or false, not int"),
        ('{"task": "query"}', "option `task` must be one of search_query, search_document, classification, clustering"),
    ],
)
def test_an_invalid_option_is_refused(raw: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(raw, EmbedOptions)
    assert str(caught.value) == message


def test_embedder_options_are_unknown_to_the_reranker() -> None:
    with pytest.raises(RequestError, match="unknown option `normalize`"):
        parse('{"normalize": true}', RerankOptions)


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ("{", "prefixes is no JSON"),
        ("[]", "prefixes is no JSON object of texts"),
        ('{"search_query": 1}', "prefixes is no JSON object of texts"),
        ('{"query": "query: "}', "a task in prefixes is `query`; wanted one of search_query"),
    ],
)
def test_malformed_prefixes_are_refused(prefixes: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        Settings.of({"model_path": "/w", "prefixes": prefixes}).task_prefixes()


def test_prefixes_of_the_plan_stand_before_texts_and_bound_the_tasks(bert: Path) -> None:
    prefixes = '{"search_query": "query: ", "search_document": "passage: "}'
    embedder = Embedder(on_cpu(bert, prefixes=prefixes, least_dimensions=24))
    texts = {task: embedder.read([[["x"]]], (1, 1), json.dumps({"task": task})).texts for task in SEARCH}
    assert texts == {"search_query": ["query: x"], "search_document": ["passage: x"]}
    assert embedder.read([[["x"]]], (1, 1), None).texts == ["passage: x"]
    with pytest.raises(RequestError, match="this model was trained only with search_query, search_document"):
        embedder.read([[["x"]]], (1, 1), '{"task": "clustering"}')
    with pytest.raises(RequestError, match="`dimensions` is 23; this model was trained for 24 to 48"):
        embedder.read([[["x"]]], (1, 1), '{"dimensions": 23}')
