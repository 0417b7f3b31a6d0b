"""A Triton whose tensors are of any form: clients get an upstream error, and no key gets tokens or pays for more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from tests.gateway import triton as stand_in
from tests.gateway.asking import CHAT, chat, in_loop, lines, running_gateway
from tests.gateway.triton import Triton

NAN, INFINITE = float("nan"), float("inf")
TEXTS = ["a", "b"]
ENCODERS = [
    ("embeddings", 4, "/v1/embeddings", {"model": "nomic", "input": TEXTS}),
    ("embeddings", 4, "/v1/embeddings", {"model": "nomic", "input": TEXTS, "encoding_format": "base64"}),
    ("embeddings", 4, "/embed", {"inputs": TEXTS}),
    ("embeddings", 4, "/v2/embed", {"model": "nomic", "texts": TEXTS, "input_type": "search_query"}),
    ("scores", 1, "/v1/rerank", {"model": "bge", "query": "q", "documents": TEXTS}),
    ("scores", 1, "/rerank", {"query": "q", "texts": TEXTS}),
]
TEXT, SEQUENCE, FINISH = ("text_output", "BYTES", ["hi"]), ("sequence_index", "INT32", [0]), "finish_reason"
ENDED = (FINISH, "BYTES", ["stop"])
Tensor = tuple[str, str, list[Any]]


def message(*tensors: Tensor, raw: dict[int, bytes] | None = None, shape: list[int] | None = None) -> Any:
    """An answer of these tensors; `raw` replaces bytes by their place, `shape` the first one's shape."""
    answer = service_pb2.ModelInferResponse()
    for name, datatype, values in tensors:
        stand_in.tensor(answer, name, datatype, (1, len(values)), values)
    for place, content in (raw or {}).items():
        answer.raw_output_contents[place] = content
    if shape is not None:
        answer.outputs[0].shape[:] = shape
    return answer


def encoded(name: str, width: int) -> dict[str, Any]:
    """Malformed answers about two texts."""
    rows: Tensor = (name, "FP32", [0.5] * 2 * width)
    counts: Tensor = ("token_counts", "INT32", [3, 3])
    good = [1, 2, width]
    return {
        "nothing": message(),
        "no rows": message(counts),
        "no counts": message(rows, shape=good),
        "no bytes": message(rows, counts, raw={0: b""}, shape=good),
        "half a number": message(rows, counts, raw={0: b"abc"}, shape=good),
        "more rows": message(rows, counts, raw={0: bytes(4000)}, shape=good),
        "NaN": message((name, "FP32", [NAN, *rows[2][1:]]), counts, shape=good),
        "infinite": message((name, "FP32", [INFINITE, *rows[2][1:]]), counts, shape=good),
        "another type": message((name, "INT32", [1] * 2 * width), counts, shape=good),
        "a count less": message(rows, ("token_counts", "INT32", [3]), shape=good),
        "counts of another type": message(rows, ("token_counts", "FP32", [3.0, 3.0]), shape=good),
    } | (
        {"no width": message(rows, counts, shape=[]), "width 0": message(rows, counts, shape=[1, 2, 0])}
        if width > 1
        else {}
    )


def serve(monkeypatch: pytest.MonkeyPatch, answers: list[Any]) -> None:
    """Makes every Triton give these answers: the first to an encoder's request, all of them as events of an LLM."""

    async def infer(self: Triton, request: Any, context: Any) -> Any:
        return answers[0]

    async def stream(self: Triton, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for _ in requests:
            for answer in answers:
                answer.parameters["triton_final_response"].bool_param = answer is answers[-1]
                yield service_pb2.ModelStreamInferResponse(infer_response=answer)

    monkeypatch.setattr(Triton, "ModelInfer", infer)
    monkeypatch.setattr(Triton, "ModelStreamInfer", stream)


@pytest.mark.parametrize(("name", "width", "path", "body"), ENCODERS)
@in_loop
async def test_rows_with_nan_are_an_upstream_error(
    name: str, width: int, path: str, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Rows with NaN once failed the gateway itself, raised its alert, and reached the client in base64."""
    answers: list[Any] = []
    serve(monkeypatch, answers)
    async with running_gateway(tmp_path) as front:
        for kind, answer in encoded(name, width).items():
            answers[:] = [answer]
            refused = await front.ask(path, body)
            assert refused.status == 500 and b"the model's server failed" in refused.body, kind
    assert "internal_error" not in capsys.readouterr().err


@pytest.mark.parametrize(("name", "width", "path", "body"), ENCODERS)
@pytest.mark.parametrize(("count", "paid"), [(-(2**31), 0), (2**31 - 1, 2 * 512)])
@in_loop
async def test_a_text_costs_no_more_tokens_than_its_model_reads(
    name: str,
    width: int,
    path: str,
    body: Any,
    count: int,
    paid: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    """A negative count gave a key its tokens back."""
    rows: Tensor = (name, "FP32", [0.5] * 2 * width)
    serve(monkeypatch, [message(rows, ("token_counts", "INT32", [count, count]), shape=[1, 2, width])])
    async with running_gateway(tmp_path) as front:
        assert (await front.ask(path, body)).status == 200
    assert [line["prompt_tokens"] for line in lines(capsys)] == [paid]


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"logprobs": True, "top_logprobs": 1}], ids=str)
@pytest.mark.parametrize(
    "answer",
    [
        message(TEXT, SEQUENCE, ENDED, raw={0: b"\1\0"}),
        message(TEXT, SEQUENCE, ENDED, raw={0: b"\0\0\0\0" * 20_000 + b"\1"}),
        message(TEXT, ("sequence_index", "INT32", [2**31 - 1]), ENDED),
        message(TEXT, ("sequence_index", "INT32", [-1]), ENDED),
        message(TEXT, ("sequence_index", "BYTES", ["x"]), ENDED),
        message(TEXT, SEQUENCE, ("token_ids", "INT32", [1]), ENDED, raw={2: b"abc"}),
    ],
)
@in_loop
async def test_an_event_that_is_none_is_an_upstream_error(
    answer: Any, more: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    serve(monkeypatch, [answer])
    async with running_gateway(tmp_path) as front:
        refused = await front.ask(CHAT, chat(max_tokens=5, **more))
    error = (refused.json() if refused.status != 200 else refused.events[-1])["error"]
    assert error["code"] == "upstream_error"
    assert "internal_error" not in capsys.readouterr().err


@in_loop
async def test_log_probabilities_of_an_engine_are_numbers_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ids, others = ("token_ids", "INT32", [1]), ("top_logprob_ids", "INT32", [2**30])
    chances = [("token_logprobs", "FP32", [NAN]), ("top_logprobs", "FP32", [INFINITE])]
    serve(monkeypatch, [message(TEXT, SEQUENCE, ids, chances[0], others, chances[1], ENDED)])
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, chat(max_tokens=5, logprobs=True, top_logprobs=1))
    assert answer.status == 200 and "internal_error" not in capsys.readouterr().err
    (entry,) = json.loads(answer.body)["choices"][0]["logprobs"]["content"]
    assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] == -9999.0


@in_loop
async def test_negative_counts_give_no_tokens_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    counts = [(f"num_{kind}_tokens", "INT32", [-7]) for kind in ("input", "output", "cached")]
    serve(monkeypatch, [message(TEXT, SEQUENCE, ENDED, *counts)])
    async with running_gateway(tmp_path) as front:
        assert (await front.chat(max_tokens=5)).json()["usage"]["completion_tokens"] == 0
    assert [line["completion_tokens"] for line in lines(capsys)] == [0]
