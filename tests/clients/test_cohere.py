"""Cohere's own client, unmodified, in both its versions; and Hugging Face's, with TEI's and OpenAI's interfaces."""

from __future__ import annotations

from typing import Any

import cohere
import huggingface_hub
import numpy as np
import pytest
import tritonclient.grpc

from tests.clients.conftest import Stack
from tests.gateway.triton import vector

QUERY = "cat mat"
DOCUMENTS = ["the dog", "a cat", "the cat sat on the mat", "", "mat"]


def directly(stack: Stack, passage: str) -> float:
    """Returns the model's own score over gRPC."""
    with tritonclient.grpc.InferenceServerClient(stack.triton.address) as triton:
        inputs = []
        for name, text in (("query", QUERY), ("passages", passage)):
            inputs.append(tritonclient.grpc.InferInput(name, [1, 1], "BYTES"))
            inputs[-1].set_data_from_numpy(np.array([[text.encode()]], dtype=object))
        return float(triton.infer("bge_v2", inputs).as_numpy("scores").reshape(-1)[0])


@pytest.mark.parametrize("version", [1, 2])
def test_scores_match_the_model_itself_and_are_sorted(stack: Stack, version: int) -> None:
    kind: Any = {1: cohere.Client, 2: cohere.ClientV2}[version]
    with kind(stack.key, base_url=stack.url) as client:
        answer = client.rerank(model="bge", query=QUERY, documents=DOCUMENTS)
    scores = {result.index: result.relevance_score for result in answer.results}
    assert scores == {index: directly(stack, text) for index, text in enumerate(DOCUMENTS)}
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert answer.meta.api_version.version == str(version)
    assert answer.meta.tokens.input_tokens == sum(len(text.split()) + 4 for text in DOCUMENTS)  # the model's own count


def test_the_first_version_sends_documents_back_and_takes_them_as_objects(stack: Stack) -> None:
    documents: Any = [{"text": text} for text in DOCUMENTS]
    with cohere.Client(stack.key, base_url=stack.url) as client:
        answer = client.rerank(model="bge", query=QUERY, documents=documents, top_n=1, return_documents=True)
    assert [result.document.text for result in answer.results if result.document] == [DOCUMENTS[2]]


@pytest.mark.parametrize(
    ("key", "more", "kind"),
    [
        ("eh-unknown", {}, cohere.UnauthorizedError),
        ("", {"model": "none"}, cohere.NotFoundError),
        ("", {"top_n": 0}, cohere.BadRequestError),
    ],
)
def test_a_refusal_is_the_clients_own_exception(stack: Stack, key: str, more: Any, kind: type[Exception]) -> None:
    with cohere.ClientV2(key or stack.key, base_url=stack.url) as client, pytest.raises(kind):
        client.rerank(**{"model": "bge", "query": QUERY, "documents": DOCUMENTS, **more})


def test_hugging_faces_client_reads_vectors_from_teis_path(stack: Stack) -> None:
    client = huggingface_hub.InferenceClient(model=f"{stack.url}/embed", token=stack.key)
    assert client.feature_extraction("the cat").tolist() == [vector("the cat")]


def test_hugging_faces_client_chats(stack: Stack) -> None:
    client = huggingface_hub.InferenceClient(base_url=f"{stack.url}/v1", api_key=stack.key)
    messages: Any = [{"role": "user", "content": "hello"}]
    answer: Any = client.chat_completion(messages, model="llama", max_tokens=9)
    assert answer.choices[0].message.content == "Hello wörld"
