"""An engine's answer reads the same for all network cuts, and a request has only fields that the engine accepts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from gateway.completion_events import Completion, likeliest
from gateway.errors import UpstreamError
from gateway.events import Event
from gateway.fields import FieldError, Fields
from gateway.http_connection import Body, Head, ProtocolError, head_of
from gateway.llm_request import LlmRequest
from gateway.runtimes import IDS_AT_ONCE, RUNTIMES, body_of, fields_of
from gateway.sampling import Sampling, endless, sampling_of
from gateway.settings import settings_of
from tests.gateway.engine import refusal

PLAIN = Sampling({"temperature": 1.0}, 1, None, (), 0, 0, None)
REQUEST = LlmRequest([1, 2, 3], PLAIN, 10)
CHUNKED = Head(200, {b"transfer-encoding": b"chunked"})


def sampled(**fields: Any) -> Sampling:
    """Returns the sampling that a client's fields request."""
    return sampling_of(Fields(fields), {"top_k": 20, "top_p": 0.9}, 4096)


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    """Draws all values that the gateway accepts from a client."""
    unit, few = st.floats(0, 1, allow_subnormal=False), st.integers(1, 9)
    choices = {
        "temperature": st.floats(0, 2),
        "top_p": unit,
        "min_p": unit,
        "top_k": st.integers(-1, 2**31 - 1),
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "repetition_penalty": st.floats(0.01, 10),
        "seed": st.integers(-(2**63) + 1, 2**63 - 1),
        "n": few,
        "stop": st.lists(st.text(min_size=1), max_size=4),
        "min_tokens": st.integers(0, 4096),
        "guided_regex": st.just("a+"),
        "ignore_eos": st.booleans(),
    }
    fields = Fields(draw(st.fixed_dictionaries({}, optional=choices)))
    sampling = sampling_of(fields, draw(st.sampled_from([{}, {"top_k": 20.0, "top_p": 0.9}])), 4096)
    return endless(fields, sampling, True)


@drawn(samplings(), st.sampled_from(sorted(RUNTIMES)), st.integers(1, 4096), st.booleans(), st.sampled_from(["", "s"]))
def test_no_engine_refuses_a_body(sampling: Sampling, runtime: str, most: int, streams: bool, salt: str) -> None:
    request = LlmRequest([1, 2, 3], sampling, most, streams, salt=salt)
    body = json.loads(b"".join(body_of(request, "llama", runtime)))
    assert refusal(body, runtime) == ""


def test_an_absent_field_is_neutral_and_not_the_weights_own() -> None:
    body = fields_of(LlmRequest([1], sampled(top_k=-1), 5), "llama", "vllm")
    assert (body["top_k"], body["top_p"], body["repetition_penalty"]) == (0, 0.9, 1.0)


@pytest.mark.parametrize(
    ("runtime", "version", "guide", "fields"),
    [
        ("vllm", "", ("json_schema", "{}"), {"structured_outputs": {"json": "{}"}}),
        ("vllm", "0.26.0", ("json", ""), {"structured_outputs": {"json_object": True}}),
        ("vllm", "0.10.2", ("json_schema", "{}"), {"guided_json": "{}"}),
        ("vllm", "0.9", ("regex", "a+"), {"guided_regex": "a+"}),
        ("trtllm-serve", "1.2.1", ("json", ""), {"response_format": {"type": "json_object"}}),
        ("trtllm-serve", "", ("regex", "a+"), {"response_format": {"type": "regex", "regex": "a+"}}),
    ],
)
def test_a_response_format_is_sent_in_the_fields_of_the_release(
    runtime: str, version: str, guide: tuple[str, str], fields: dict[str, Any]
) -> None:
    sampling = Sampling({"temperature": 1.0}, 1, None, (), 0, 0, guide)
    body = fields_of(LlmRequest([1], sampling, 5), "llama", runtime, version)
    assert {name: body[name] for name in fields} == fields


@pytest.mark.parametrize("length", [1, IDS_AT_ONCE, IDS_AT_ONCE + 1, 3 * IDS_AT_ONCE + 5])
@pytest.mark.parametrize("greedy", [False, True])
def test_a_prompt_written_in_pieces_is_complete(length: int, greedy: bool) -> None:
    sampling = sampled(n=2, temperature=0 if greedy else 1)
    prompt = list(range(length))
    body = json.loads(b"".join(body_of(LlmRequest(prompt, sampling, 5), "llama", "vllm")))
    assert body["prompt"] == ([prompt, prompt] if greedy else prompt)
    assert body.get("n", 1) == (1 if greedy else 2)


def chunks(pieces: list[bytes]) -> bytes:
    """Returns a body in chunks."""
    return b"".join(f"{len(piece):X};x=y\r\n".encode() + piece + b"\r\n" for piece in pieces if piece) + b"0\r\n\r\n"


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    """Returns the bytes in pieces that end at these places."""
    bounds = sorted({0, len(raw), *(place % (len(raw) + 1) for place in places)})
    return [raw[begin:end] for begin, end in pairwise(bounds)]


@drawn(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 500)))
def test_chunks_read_the_same_however_they_are_cut(pieces: list[bytes], places: list[int]) -> None:
    body = Body(CHUNKED)
    assert b"".join(map(body.feed, cut(chunks(pieces), places))) == b"".join(pieces)
    assert body.is_done and not body.has_more


@drawn(st.binary(max_size=60), st.lists(st.integers(0, 100)))
def test_any_bytes_are_a_body_or_a_refusal(raw: bytes, places: list[int]) -> None:
    body, size = Body(CHUNKED), 0
    try:
        for piece in cut(raw, places):
            size += len(body.feed(piece))
    except ProtocolError as error:
        assert str(error).isascii()
    assert size <= len(raw)


@drawn(st.binary(max_size=80))
def test_any_bytes_are_a_head_or_a_refusal(raw: bytes) -> None:
    for head in (raw, b"HTTP/1.1 200 OK\r\n" + raw):
        try:
            assert 100 <= head_of(head + b"\r\n\r\n").status <= 999
        except ProtocolError as error:
            assert str(error).isascii()


def test_bytes_after_a_body_are_noticed() -> None:
    for head, raw in ((CHUNKED, chunks([b"ab"])), (Head(200, {b"content-length": b"2"}), b"ab")):
        body = Body(head)
        body.feed(raw + b"HTTP")
        assert body.is_done and body.has_more


EVENTS = [
    {"choices": [{"index": 0, "text": "Hé", "token_ids": [5], "prompt_token_ids": [1]}]},
    {"choices": [{"index": 1, "text": "x", "finish_reason": "length"}]},
    {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2}}},
]


@drawn(st.lists(st.integers(0, 2000)))
def test_a_stream_reads_the_same_however_it_is_cut(places: list[int]) -> None:
    lines = [b": a comment", *(b"data: " + json.dumps(event, ensure_ascii=False).encode() for event in EVENTS)]
    raw = b"\n\n".join([*lines, b"data: [DONE]", b""])
    completion = Completion(LlmRequest([1], Sampling({}, 2, None, (), 0, 0, None), 10))
    events = [event for piece in cut(raw, places) for event in completion.feed(piece)]
    completion.end()
    assert events == [
        Event(0, "Hé", [5], "", 0, 0, {}),
        Event(1, "x", (), "length", 0, 0, {}),
        Event(0, "", (), "stop", 9, 2, {}),
    ]


def test_an_answer_that_ended_before_its_first_event_may_be_asked_elsewhere() -> None:
    """An engine ended a request this way while it stopped (vLLM 0.26.0 on an H100, 2026-11-27)."""
    completion = Completion(REQUEST)
    assert list(completion.feed(b"data: [DONE]\n\n")) == []
    with pytest.raises(UpstreamError) as ended:
        completion.end()
    assert ended.value.may_go_elsewhere and ended.value.is_away


@drawn(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["choices", "index", "text", "usage", "error", "code", "finish_reason", "logprobs", "completion_tokens"]
    ), inner, max_size=4)
)))  # fmt: skip
def test_any_json_is_an_event_or_a_refusal(value: Any) -> None:
    completion = Completion(REQUEST)
    try:
        events = list(completion.feed(b"data: " + json.dumps(value).encode() + b"\n"))
    except (UpstreamError, ValueError) as error:
        assert type(error).__name__ in ("UpstreamError", "Malformed")
    else:
        assert all(event.sequence == 0 for event in events)


def test_the_most_likely_tokens_are_sorted_and_padded() -> None:
    value = {"token_id:7": -3.0, "token_id:5": -0.5, "token_id:6": -1.0}
    assert likeliest(value, 2) == [(5, -0.5), (6, -1.0)]
    assert likeliest(value, 4)[-1][0] == -1


@pytest.mark.parametrize(
    ("server", "model", "field"),
    [
        ({"http": "127.0.0.1"}, {}, "runtime"),
        ({"http": "127.0.0.1", "runtime": "vllm"}, {}, "http"),
        ({"http": "127.0.0.1:1", "grpc": "127.0.0.1:2", "runtime": "vllm"}, {}, "http"),
        ({"http": "127.0.0.1:1", "runtime": "other"}, {}, "runtime"),
        ({"grpc": "127.0.0.1:1", "runtime": "vllm"}, {}, "runtime"),
        ({"http": "127.0.0.1:1", "runtime": "trtllm-serve"}, {"salts": True}, "salts"),
        ({"http": "127.0.0.1:1", "runtime": "trtllm-serve"}, {"tool_parser": "harmony"}, "tool_parser"),
        ({"http": "127.0.0.1:1", "runtime": "vllm"}, {"kind": "reranker"}, "servers"),
    ],
)
def test_settings_refuse_options_that_an_engine_lacks(
    server: dict[str, Any], model: dict[str, Any], field: str
) -> None:
    llm = {"kind": "llm", "context_tokens": 9, "files": "/x", "servers": ["a"]} | model
    if llm["kind"] != "llm":
        llm = {"kind": "reranker", "servers": ["a"], "max_items": 1, "max_tokens": 1}
    settings = {"servers": {"a": server}, "models": {"llama": llm}, "salt_file": "/x"}
    with pytest.raises(FieldError) as refused:
        settings_of(settings)
    assert refused.value.param.rpartition(".")[2] == field
