"""The service for a client: every model ready, every answer meaningful, every bad request refused."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from deploy.io.endpoints import Endpoint
from deploy.io.model_requests import Request
from deploy.models.answers import answer
from deploy.models.questions import HARMONY, SAMPLES
from deploy.slices.host import ModelSlice, ServerSlice
from roles.triton.engine import load_order
from tests.smoke.ask import embed, generate, rerank

HTTP = tritonclient.http.InferenceServerClient
GRPC = tritonclient.grpc.InferenceServerClient

PARAPHRASES = SAMPLES["embedder"]
UNRELATED = ("A man is eating food.", "The stock market fell sharply on Monday.")


def for_kind(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that runs a test only for the models of this kind."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.kind = kind
        return test

    return mark


def cosine(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    """Returns the cosine of the angle between two vectors."""
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


def test_every_planned_model_is_ready_over_both_protocols(http: HTTP, grpc: GRPC, model: ModelSlice) -> None:
    """Each model's own readiness is asked, because in older cores `/v2/health/ready` stays 200 with a dead model."""
    assert http.is_model_ready(model.name) and grpc.is_model_ready(model.name)


def test_no_other_model_is_loaded(http: HTTP, server: ServerSlice) -> None:
    """The loaded models are the planned ones, the helper models of engines, and the operator's own."""
    statistics = http.get_inference_statistics()["model_stats"]
    names = {name for model in server.in_triton for name in load_order(model)}
    assert {row["name"] for row in statistics} == names | {model.name for model in server.own_models}


def test_the_operator_s_own_models_are_ready(http: HTTP, server: ServerSlice) -> None:
    """A plan knows only the names of these models, so only their readiness can be tested."""
    assert [model.name for model in server.own_models if not http.is_model_ready(model.name)] == []


@for_kind("embedder")
def test_embeddings_have_one_unit_vector_per_text_of_every_row(http: HTTP, model: ModelSlice) -> None:
    """B > 1 and N > 1: rows and texts all come back, normalised."""
    vectors = embed(http, model.name, [["one", "two", "three"], ["four", "five", "six"]])
    assert vectors.shape == (2, 3, model.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=-1), 1.0, atol=1e-3)


@for_kind("embedder")
@pytest.mark.parametrize("count", [1, 33])
def test_any_number_of_texts_comes_back_in_shape(grpc: GRPC, model: ModelSlice, count: int) -> None:
    """The counts are one text and 33 texts."""
    assert embed(grpc, model.name, [["some text"] * count]).shape == (1, count, model.dimensions)


@for_kind("embedder")
def test_both_protocols_return_the_same_vector(http: HTTP, grpc: GRPC, model: ModelSlice) -> None:
    """The vectors agree up to rounding."""
    over_http, over_grpc = (embed(client, model.name, [["the same text"]])[0, 0] for client in (http, grpc))
    assert 1 - cosine(over_http, over_grpc) < 1e-4


@for_kind("embedder")
def test_a_vector_does_not_depend_on_its_batch_mates(http: HTTP, model: ModelSlice) -> None:
    """The guides' mask-less mean fails exactly here."""
    alone = embed(http, model.name, [["short"]])[0, 0]
    beside = embed(http, model.name, [["short", "a much longer text " * 20]])[0, 0]
    assert 1 - cosine(alone, beside) < 1e-3


@for_kind("embedder")
def test_a_paraphrase_is_closer_than_an_unrelated_sentence(
    http: HTTP, model: ModelSlice, random_weights: tuple[str, ...]
) -> None:
    """The difference is at least 0.3 in cosine. Only trained weights have this property; the inventory names
    untrained ones."""
    if model.name in random_weights:
        pytest.skip("random weights: meaning needs the published checkpoint")
    vectors = embed(http, model.name, [[*PARAPHRASES, UNRELATED[1]]])[0]
    assert cosine(vectors[0], vectors[1]) - cosine(vectors[0], vectors[2]) >= 0.3


@for_kind("reranker")
def test_every_passage_gets_a_score_that_does_not_depend_on_the_others(grpc: GRPC, model: ModelSlice) -> None:
    """A passage has the same score alone and beside longer passages."""
    passages = ["Paris is the capital of France.", "Bananas are yellow. " * 30, "Berlin lies on the Spree."]
    together = rerank(grpc, model.name, "What is the capital of France?", passages)
    alone = [rerank(grpc, model.name, "What is the capital of France?", [text])[0] for text in passages]
    assert together.shape == (3,) and np.allclose(together, alone, atol=2e-2)


@for_kind("llm")
def test_the_llm_streams_an_answer(grpc: GRPC, model: ModelSlice) -> None:
    """The joined pieces of the stream hold text."""
    if not model.decoupled:
        pytest.skip("this model is not decoupled, so it cannot stream")
    prompt = HARMONY.format("Say hello.") if model.architecture.startswith("GptOss") else "Say hello."
    answer = "".join(generate(grpc, model.name, prompt, tokens=16, path=model.path))
    assert answer.strip()


def test_the_line_that_ask_prints_gets_an_answer_in_a_shell(line_to_ask: Request) -> None:
    """`enginehouse ask` and `make rehearse` print the line."""
    pasted = subprocess.run(["sh", "-c", line_to_ask.command.line], capture_output=True, text=True, check=True)
    assert answer(line_to_ask.model, line_to_ask.question, pasted.stdout).values


def bad_request(http: HTTP, model: ModelSlice) -> None:
    """Returns a request that no model of that kind can answer."""
    if model.kind == "embedder":
        embed(http, model.name, [["text"]], no_such_option=True)
    elif model.kind == "reranker":
        rerank(http, model.name, "query", ["passage"], no_such_option=True)
    else:
        shape = [1, 1] if model.path == "engine" else [1]
        tensor = tritonclient.http.InferInput("text_input", shape, "INT32")
        tensor.set_data_from_numpy(np.ones(shape, dtype=np.int32))
        http.infer(model.name, [tensor])


def test_a_bad_request_is_refused_and_leaves_the_model_well(http: HTTP, model: ModelSlice) -> None:
    """The error is useful to a person; then the model is as ready as before."""
    with pytest.raises(InferenceServerException) as refused:
        bad_request(http, model)
    assert refused.value.message() and http.is_model_ready(model.name)


def test_an_unknown_model_is_named_in_the_error(http: HTTP, server: ServerSlice) -> None:
    """Triton's own message has the name."""
    with pytest.raises(InferenceServerException, match="no-such-model"):
        embed(http, "no-such-model", [["text"]])


def test_an_outside_load_request_is_refused(endpoint: Endpoint) -> None:
    """Loading a model runs code; the endpoint is restricted."""
    request = urllib.request.Request(
        f"http://{endpoint.http}/v2/repository/models/anything/load", data=json.dumps({}).encode(), method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    refused.value.close()
    assert refused.value.code in (401, 403)


def test_an_outside_load_request_over_grpc_is_refused(grpc: GRPC) -> None:
    """The second gateway has the same lock."""
    with pytest.raises(InferenceServerException, match=r"(?i)restricted|unavailable"):
        grpc.load_model("anything")


def test_metrics_count_every_planned_model(endpoint: Endpoint, server: ServerSlice) -> None:
    """Each model has its own label in the metrics."""
    with urllib.request.urlopen(f"http://{endpoint.metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    missing = [row.name for row in server.in_triton if f'nv_inference_request_success{{model="{row.name}"' not in text]
    assert missing == []
