"""Both templates, rendered and parsed with Triton's own schema."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tritonclient.grpc import model_config_pb2

TEMPLATES = Path(__file__).parents[2] / "templates" / "triton"
LIMITS = {
    "max_batch_size": 64,
    "max_queue_delay_microseconds": 500,
    "max_queue_size": 256,
    "default_timeout_microseconds": 0,
}


def rendered(kind: str, **variables: Any) -> Any:
    environment = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=False)
    text = environment.get_template(f"{kind}.pbtxt.j2").render(**(LIMITS | variables))
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.fixture
def embedder() -> Any:
    """Returns the embedder's configuration."""
    return rendered("embedder", name="nomic", dimensions=768, parameters={"model_path": '/w/a "b"\\c', "dtype": "fp16"})


@pytest.fixture
def reranker() -> Any:
    """Returns the reranker's configuration."""
    return rendered("reranker", name="bge", parameters={"model_path": "/w"}, default_timeout_microseconds=2_000_000)


def test_variable_inputs_are_ragged_and_the_query_is_not(embedder: Any, reranker: Any) -> None:
    assert [(i.name, list(i.dims), i.allow_ragged_batch) for i in embedder.input] == [("texts", [-1], True)]
    assert [(i.name, list(i.dims), i.allow_ragged_batch) for i in reranker.input] == [
        ("query", [1], False),
        ("passages", [-1], True),
    ]


def test_outputs_are_typed_and_leave_the_batch_dimension_to_triton(embedder: Any, reranker: Any) -> None:
    kinds = model_config_pb2.DataType
    assert [(o.name, kinds.Name(o.data_type), list(o.dims)) for o in [*embedder.output, *reranker.output]] == [
        ("embeddings", "TYPE_FP32", [-1, -1]),
        ("token_counts", "TYPE_INT32", [-1]),
        ("scores", "TYPE_FP32", [-1]),
        ("token_counts", "TYPE_INT32", [-1]),
    ]


def test_the_queue_is_bounded_and_without_a_timeout_nothing_is_dropped(embedder: Any) -> None:
    policy = embedder.dynamic_batching.default_queue_policy
    assert (policy.max_queue_size, policy.default_timeout_microseconds) == (256, 0)
    assert embedder.dynamic_batching.max_queue_delay_microseconds == 500


def test_a_queue_timeout_rejects_longer_waits(reranker: Any) -> None:
    policy = reranker.dynamic_batching.default_queue_policy
    assert (policy.timeout_action, policy.default_timeout_microseconds) == (policy.REJECT, 2_000_000)


def test_parameters_arrive_as_given_with_the_expected_dimensions(embedder: Any) -> None:
    assert {key: value.string_value for key, value in embedder.parameters.items()} == {
        "model_path": '/w/a "b"\\c',
        "dtype": "fp16",
        "dimensions": "768",
    }


def test_there_is_one_instance_and_the_device_is_a_parameter(embedder: Any, reranker: Any) -> None:
    for config in (embedder, reranker):
        (group,) = config.instance_group
        assert (group.kind, group.count) == (group.KIND_CPU, 1)
