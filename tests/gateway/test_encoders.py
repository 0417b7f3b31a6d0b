"""Embeddings and the three dialects of reranking."""

import base64
import struct
from pathlib import Path

import grpc
import pytest

from tests.gateway.asking import OTHER_KEY, in_loop, running_gateway
from tests.gateway.triton import Script, vector


@in_loop
async def test_vectors_keep_the_order_of_the_texts_across_parts(tmp_path: Path) -> None:
    """The model takes three texts per request; seven texts make three parts."""
    texts = [f"text {'x' * number}" for number in range(7)]
    async with running_gateway(tmp_path) as front:
        answer = (await front.ask("/v1/embeddings", {"model": "nomic", "input": texts})).json()
        sizes = sorted(len(request.tensors["texts"]) for request in front.triton.requests)
    assert [entry["embedding"] for entry in answer["data"]] == [vector(text) for text in texts]
    assert [entry["index"] for entry in answer["data"]] == list(range(7))
    assert sizes == [1, 3, 3]
    assert answer["usage"] == {"prompt_tokens": 27, "total_tokens": 27}
    assert (answer["object"], answer["model"], answer["id"][:5]) == ("list", "nomic", "embd-")


@in_loop
async def test_base64_is_little_endian_float32(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", {"model": "nomic", "input": "abc", "encoding_format": "base64"})
    (entry,) = answer.json()["data"]
    assert list(struct.unpack("<4f", base64.b64decode(entry["embedding"]))) == vector("abc")


@in_loop
async def test_truncation_and_task_are_off_by_default(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.ask("/v1/embeddings", {"model": "nomic", "input": "a"})
        await front.ask("/v1/embeddings", {"model": "nomic:query", "input": "a", "dimensions": 2})
        await front.ask("/v1/embeddings", {"model": "nomic", "input": "a", "task": "search_document", "truncate": True})
        parameters = [request.parameters for request in front.triton.requests]
    assert parameters == [
        {"truncate": False},
        {"truncate": False, "dimensions": 2, "task": "search_query"},
        {"truncate": True, "task": "search_document"},
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [1, 2]}, "input"),
        ({"input": [[1, 2]]}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", 1]}, "input[1]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 5}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "task": "rhyme"}, "task"),
        ({"input": "a", "input_type": "image"}, "input_type"),
        ({}, "input"),
    ],
)
@in_loop
async def test_embeddings_that_cannot_be_made_are_refused_by_name(
    tmp_path: Path, body: dict[str, object], param: str
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", {"model": "nomic", **body})
        assert front.triton.requests == []
    assert (answer.status, answer.error["param"]) == (400, param)


@in_loop
async def test_token_arrays_are_refused_with_the_setting_that_langchain_needs(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", {"model": "nomic", "input": [[1, 2]]})
    assert "check_embedding_ctx_length=False" in answer.error["message"]


@in_loop
async def test_a_text_that_is_too_long_is_a_client_error(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(
            error=(grpc.StatusCode.INVALID_ARGUMENT, "texts[0][0] has 613 tokens of at most 512")
        )
        answer = await front.ask("/v1/embeddings", {"model": "nomic", "input": "a"})
    assert (answer.status, answer.error["message"]) == (400, "texts[0][0] has 613 tokens of at most 512")


QUERY, DOCUMENTS = "cat mat", ["dog", "the cat sat on the mat", "a cat", "the mat"]


@in_loop
async def test_cohere_and_jina_get_the_same_answer(tmp_path: Path) -> None:
    body = {"model": "bge", "query": QUERY, "documents": [*DOCUMENTS[:3], {"text": DOCUMENTS[3]}]}
    async with running_gateway(tmp_path) as front:
        answer = (await front.ask("/v1/rerank", {**body, "return_documents": True})).json()
        top = (await front.ask("/v1/rerank", {**body, "top_n": 1})).json()
        models = {request.model for request in front.triton.requests}
        parameters = front.triton.requests[0].parameters
    assert answer["results"] == [
        {"index": 1, "relevance_score": 1.0, "document": {"text": "the cat sat on the mat"}},
        {"index": 2, "relevance_score": 0.5, "document": {"text": "a cat"}},
        {"index": 3, "relevance_score": 0.5, "document": {"text": "the mat"}},
        {"index": 0, "relevance_score": 0.0, "document": {"text": "dog"}},
    ]
    assert (answer["meta"]["api_version"], answer["usage"]["total_tokens"]) == ({"version": "1"}, 27)
    assert top["results"] == [{"index": 1, "relevance_score": 1.0}]
    assert (models, parameters) == ({"bge_v2"}, {"raw_scores": False, "truncate": True})


@in_loop
async def test_cohere_v2_answers_all_documents_sorted(tmp_path: Path) -> None:
    body = {"model": "bge", "query": QUERY, "documents": DOCUMENTS, "max_tokens_per_doc": 4096, "priority": 0}
    async with running_gateway(tmp_path) as front:
        answer = (await front.ask("/v2/rerank", body)).json()
    assert [result["index"] for result in answer["results"]] == [1, 2, 3, 0]
    assert answer["meta"] == {"api_version": {"version": "2"}, "tokens": {"input_tokens": 27}}


@in_loop
async def test_tei_names_no_model_and_has_its_own_answer(tmp_path: Path) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS[:2], "raw_scores": True, "return_text": True}
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/rerank", body, key=OTHER_KEY)
        (request,) = front.triton.requests
    assert answer.json() == [
        {"index": 1, "score": 1.0, "text": "the cat sat on the mat"},
        {"index": 0, "score": 0.0, "text": "dog"},
    ]
    assert request.parameters == {"raw_scores": True, "truncate": False}


@in_loop
async def test_teis_errors_have_teis_shape(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/rerank", {"query": QUERY, "texts": DOCUMENTS, "truncation_direction": "Left"})
    refusal = {"error": "`truncation_direction`: texts are cut at their end", "error_type": "Validation"}
    assert (answer.status, answer.json()) == (400, refusal)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/rerank", {"documents": [{"image": "x"}]}, "documents[0].text"),
        ("/v1/rerank", {"documents": ["a"], "rank_fields": ["title"]}, "rank_fields"),
        ("/v2/rerank", {"documents": ["a"], "max_tokens_per_doc": 100}, "max_tokens_per_doc"),
        ("/v2/rerank", {"documents": ["a"], "top_n": 0}, "top_n"),
    ],
)
@in_loop
async def test_rerankings_that_cannot_be_made_are_refused_by_name(
    tmp_path: Path, path: str, body: dict[str, object], param: str
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(path, {"model": "bge", "query": "q", **body})
        assert front.triton.requests == []
    assert (answer.status, answer.error["param"]) == (400, param)


@in_loop
async def test_a_refusal_names_the_kind_of_a_model_of_the_wrong_kind(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", {"model": "bge", "input": "a"})
    assert (answer.status, answer.error["code"]) == (400, "wrong_model_kind")


@in_loop
async def test_tei_embeds_a_text_or_a_list(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        several = await front.ask("/embed", {"inputs": ["a", "bb"], "normalize": False, "model": "nomic:query"})
        options = {"wait_for_model": True, "use_cache": True}  # as LangChain's and LangChain4j's clients send them
        single = await front.ask("/embed", {"inputs": "a", "truncate": True, "options": options})
        parameters = [request.parameters for request in front.triton.requests]
    assert (several.json(), single.json()) == ([vector("a"), vector("bb")], [vector("a")])
    assert parameters == [
        {"truncate": False, "normalize": False, "task": "search_query"},
        {"truncate": True, "normalize": True},
    ]


@in_loop
async def test_a_key_without_an_embedder_is_refused_in_teis_shape(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/embed", {"inputs": "a"}, key=OTHER_KEY)
    assert (answer.status, answer.json()) == (
        400,
        {"error": "this key may not use any embedder", "error_type": "Validation"},
    )


@in_loop
async def test_jinas_fields_of_an_embedding_request_are_accepted(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        sent = {"model": "nomic", "input": [{"text": "a cat"}, "mat"], "task": "retrieval.passage", "normalized": True}
        answer = (await front.ask("/v1/embeddings", sent | {"embedding_type": "base64", "late_chunking": False})).json()
        assert front.triton.requests[-1].parameters["task"] == "search_document"
        assert front.triton.requests[-1].tensors["texts"] == ["a cat", "mat"]
        assert isinstance(answer["data"][0]["embedding"], str)
        refused = await front.ask("/v1/embeddings", sent | {"task": "separation"})
    assert (refused.status, refused.error["param"]) == (400, "task")


@in_loop
async def test_the_only_encoder_of_a_key_is_described_in_teis_format(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        only = (await front.ask("/info", key=OTHER_KEY)).json()
        several = await front.ask("/info")
    assert only == {
        "model_id": "bge",
        "model_type": {"reranker": {}},
        "max_input_length": 512,
        "max_client_batch_size": 10_000,
        "auto_truncate": False,
    }
    assert several.status == 400 and several.json()["error_type"] == "Validation"
