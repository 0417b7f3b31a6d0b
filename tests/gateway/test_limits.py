"""Refused bodies (too large, too slow, too deep, not JSON), and unknown paths and methods."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.asking import CHAT, chat, in_loop, running_gateway

GOOD = b'{"model": "llama", "messages": [{"role": "user", "content": "x"}], %s}'
"""A body with a place for one more field; without it the request is answered."""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (GOOD % b'"user": "a"', 200),
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (GOOD % b'"user": "a", "user": "a"', 400),
        (GOOD % b'"logit_bias": {"1": NaN}', 400),
        (GOOD % b'"user": "\xff"', 400),
        (GOOD % b'"user": "\\ud800"', 400),
        (b'{"model": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b" " * (2**24 + 1), 413),
    ],
)
@in_loop
async def test_a_body_that_is_no_plain_json_is_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, body)
    assert answer.status == status
    assert status == 200 or answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("depth", "words"), [(64, "must be a JSON object"), (65, "deeper than 64"), (100_000, "objects and lists")]
)
@in_loop
async def test_brackets_are_counted_before_anything_reads_them(tmp_path: Path, depth: int, words: str) -> None:
    """Python's own parser rejects some depths; later readers and the model's schema compiler would not."""
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, b"[" * depth + b"]" * depth)
    assert (answer.status, words in answer.error["message"]) == (400, True)


@pytest.mark.parametrize("name", ["authorization", "content-type", "content-length", "transfer-encoding", "host"])
@in_loop
async def test_a_repeated_header_is_refused(tmp_path: Path, name: str) -> None:
    async with running_gateway(tmp_path) as front:
        talk = front.opened(CHAT, chat(), headers={"host": "gateway", "content-length": "70"})
        headers = dict(talk.scope["headers"]) | ({b"transfer-encoding": b"chunked"} if "transfer" in name else {})
        talk.scope["headers"] += [(name.encode(), headers[name.encode()])]
        answer = await talk.run()
        assert front.triton.requests == []
    assert (answer.status, "occurs twice" in answer.error["message"]) == (400, True)


@in_loop
async def test_an_oversized_body_is_discarded_within_bounds(tmp_path: Path) -> None:
    """A slightly oversized body is received, so that its client reads the answer; an endless body is not."""
    async with running_gateway(tmp_path, limits={"body_bytes": 100}) as front:
        short = front.opened(CHAT, chat(), headers={"content-length": "101"})
        assert ((await short.run()).status, len(short.parts)) == (413, 0)
        endless = front.opened(CHAT, parts=[b" " * 60] * 1000)
        assert ((await endless.run()).status, len(endless.parts)) == (413, 998)


@in_loop
async def test_a_body_that_does_not_arrive_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, limits={"body_seconds": 1}) as front:
        talk = front.opened(CHAT, parts=[b"{"])
        talk.receive = first_then_nothing(talk.receive)
        assert (await talk.run()).status == 408


def first_then_nothing(receive):
    """Sends the beginning of a body as a client."""
    sent = []

    async def slow():
        if sent:
            await asyncio.Event().wait()
        sent.append(1)
        return {**await receive(), "more_body": True}

    return slow


@in_loop
async def test_unknown_paths_methods_and_content_types_are_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        assert (await front.ask("/v1/nothing")).status == 404
        assert (await front.ask("/v1/models//x")).status == 404
        assert (await front.ask("/v1/models/nope")).error["code"] == "model_not_found"
        assert (await front.ask(CHAT)).status == 405
        assert (await front.ask("/v1/models", method="DELETE")).status == 405
        assert (await front.ask(CHAT, chat(), headers={"content-type": "text/plain"})).status == 415


@in_loop
async def test_a_full_gateway_answers_503_with_retry_after(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.app.is_full = lambda: True
        answer = await front.chat()
        assert front.triton.requests == []
        assert (await front.ask("/health", key=None)).status == 200
    assert (answer.status, answer.headers["retry-after"], answer.error["code"]) == (503, "1", "overloaded")
