"""Large inputs of a tenant: refusals, costs, and work that never runs in the event loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import gateway.bodies
from gateway.bodies import body_bounds, is_large
from gateway.errors import ApiError
from tests.gateway.asking import (
    CHAT,
    KEY,
    OTHER_KEY,
    RunningGateway,
    becomes,
    chat,
    in_loop,
    key_line,
    lines,
    running_gateway,
)
from tests.gateway.triton import Script

PROSE = "the cat sat on the mat, and said hello; " * 4000
"""160 KB of text, so that it is parsed and tokenised in separate processes."""


@in_loop
async def test_bodies_that_are_withheld_leave_room_for_other_tenants(tmp_path: Path) -> None:
    limits = {"body_bytes": 1000, "tenant_bodies_bytes": 2000, "bodies_bytes": 100_000}
    async with running_gateway(tmp_path, limits=limits) as front:
        await two_tenants(front)
        withheld = [front.opened(CHAT, parts=[b" " * 900, b""]) for _ in range(3)]
        for talk in withheld:
            talk.receive = first_then_nothing(talk.receive)
        tasks = [asyncio.ensure_future(talk.run()) for talk in withheld]
        await becomes(lambda: any(task.done() for task in tasks))
        refused = next(task for task in tasks if task.done()).result()
        assert (refused.status, refused.headers["retry-after"]) == (429, "2")
        assert (await front.ask(CHAT, chat(), key=OTHER_KEY)).status == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await becomes(lambda: not front.gateway._bodies)


def first_then_nothing(receive: Any) -> Any:
    """Sends the beginning of a body as a client."""
    sent: list[int] = []

    async def slow() -> Any:
        if sent:
            await asyncio.Event().wait()
        sent.append(1)
        return await receive()

    return slow


@in_loop
async def test_bodies_share_the_total_limit_if_the_gateway_has_no_keys(tmp_path: Path) -> None:
    limits = {"body_bytes": 1000, "tenant_bodies_bytes": 1000, "bodies_bytes": 3000}
    async with running_gateway(tmp_path, has_keys=False, limits=limits) as front:
        held = front.gateway.held_by("-")
        held.take(3000)
        with pytest.raises(ApiError):
            held.take(1)


@in_loop
async def test_vectors_that_clients_do_not_take_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before any request to the model; the memory is free again after the client has read the answer."""
    monkeypatch.setattr("gateway.gateway.TENANT_ANSWER_BYTES", 5 * 4 * 24)
    async with running_gateway(tmp_path) as front:
        few, many = ({"model": "nomic:query", "input": ["a"] * count} for count in (5, 6))
        assert (await front.ask("/v1/embeddings", few)).status == 200
        assert (await front.ask("/v1/embeddings", few)).status == 200
        count_before = len(front.triton.requests)
        refused = await front.ask("/v1/embeddings", many)
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
        assert (len(front.triton.requests), front.gateway._answers) == (count_before, {})


@in_loop
async def test_the_body_is_released_before_its_answer_streams(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(CHAT, chat(stream=True))
        task = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        assert front.gateway._bodies == {}
        talk.left.set()
        await task


async def two_tenants(front: RunningGateway, **limits: int) -> None:
    """Gives `KEY` of acme these limits, and `OTHER_KEY` of umbrella every model."""
    keys = [key_line(KEY, "acme", **limits), key_line(OTHER_KEY, "umbrella")]
    front.keys_file.write_text(json.dumps({"keys": keys}))
    await front.gateway.refresh()


LARGE = {"context_tokens": 200_000}


@in_loop
async def test_a_large_chat_is_answered_as_a_small_chat_is(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, llm=LARGE) as front:
        answer = await front.chat(PROSE, max_tokens=5)
        tokens = len(front.triton.requests[0].tensors["prompt_token_ids"])
    assert (answer.status, answer.json()["usage"]["prompt_tokens"]) == (200, tokens)
    assert tokens > 10_000


@in_loop
async def test_a_large_chat_is_read_outside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parser and tokenizer run in other processes; here they would delay every stream."""
    async with running_gateway(tmp_path, llm=LARGE) as front:
        monkeypatch.setattr(gateway.bodies, "parsed", None)
        for name in ("_marked", "_encoded", "raw"):
            monkeypatch.setattr(front.gateway.prompters["llama"], name, None)
        assert (await front.chat(PROSE)).status == 200
        prompt = {"model": "llama", "prompt": PROSE}
        assert (await front.ask("/v1/completions", prompt)).status == 200
        counted = await front.ask("/tokenize", prompt)
    assert (counted.status, counted.json()["count"] == len(counted.json()["tokens"]) > 10_000) == (200, True)


@pytest.mark.parametrize(
    "piece", [b'{"":0},', b"[],", b"0.1,", b'"",', b'{"a":[{"b":0}]},', b'"a":0,'], ids=lambda piece: piece.decode()
)
@in_loop
async def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(
    tmp_path: Path, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"model":"llama","messages":[' + piece * (2**20 // len(piece)) + b"0]}"
    monkeypatch.setattr("gateway.json_body.json.loads", None)
    with pytest.raises(ValueError, match="there are more than"):
        gateway.bodies.parsed(body, bounds())
    monkeypatch.undo()
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, body)
    assert (answer.status, "there are more than" in answer.error["message"]) == (400, True)


def bounds() -> Any:
    return gateway.bodies.Bounds(64, 32_768, 65_736)


def test_brackets_within_strings_are_not_counted_as_values() -> None:
    """A prompt may be a JSON document itself."""
    text = json.dumps([{"a": [0, 1]}] * 20_000)
    body = json.dumps(chat(text)).encode()
    assert is_large(body)
    assert gateway.bodies.parsed(body, bounds()) == chat(text)


def test_quotes_without_an_end_are_read_once() -> None:
    """The work grows with the length; an earlier regular expression took minutes for this MiB."""
    with pytest.raises(ValueError, match="nested deeper than 64"):
        gateway.bodies.parsed(b"[" * 65 + b'"' + b'\\"' * 2**19, bounds())


@pytest.mark.parametrize(
    ("kind", "most_bytes"), [("llm", 2**20 + 200 * 32), ("embedder", 2**24), ("reranker", 2**24), ("", 2**20)]
)
@in_loop
async def test_a_body_is_limited_to_what_its_paths_models_accept(tmp_path: Path, kind: str, most_bytes: int) -> None:
    async with running_gateway(tmp_path) as front:
        assert body_bounds(front.gateway.settings, kind).most_bytes == most_bytes


@in_loop
async def test_a_chat_beyond_the_context_in_bytes_is_refused_by_its_size(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, chat("x" * (2**20 + 200 * 32)))
    assert (answer.status, answer.error["type"]) == (413, "invalid_request_error")


@in_loop
async def test_a_text_too_long_for_any_context_is_not_tokenised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(tmp_path) as front:
        prompter = front.gateway.prompters["llama"]
        monkeypatch.setattr(prompter.lanes, "answer", None)
        text = "x" * (200 * prompter.longest + len(prompter.template.source) + 65_536 + 1)
        for path, body in ((CHAT, chat(text)), ("/v1/completions", {"model": "llama", "prompt": text})):
            answer = await front.ask(path, body)
            assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


@in_loop
async def test_a_large_body_is_charged_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gateway(tmp_path, llm=LARGE) as front:
        await two_tenants(front, tokens_per_minute=1000)
        monkeypatch.setattr(front.gateway.parser, "value", None)
        answer = await front.chat(PROSE)
    assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")


@in_loop
async def test_a_large_body_that_is_refused_pays_for_being_read(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, llm=LARGE) as front:
        await two_tenants(front, tokens_per_minute=1_000_000)
        body = json.dumps(chat(PROSE)).encode()
        assert (await front.ask(CHAT, body[:-1])).status == 400
        assert used(front) == (len(body) - 1) // 8
        small = await front.ask(CHAT, b"{")
        assert (small.status, used(front)) == (400, (len(body) - 1) // 8)


@in_loop
async def test_a_large_chat_is_charged_for_its_tokens_only(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, llm=LARGE) as front:
        await two_tenants(front, tokens_per_minute=1_000_000)
        answer = await front.chat(PROSE, max_tokens=5)
        assert (answer.status, used(front)) == (200, answer.json()["usage"]["total_tokens"])


@in_loop
async def test_counting_a_text_costs_its_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running_gateway(tmp_path) as front:
        await two_tenants(front, tokens_per_minute=1000)
        answer = await front.ask("/tokenize", {"model": "llama", "prompt": "the cat sat on the mat"})
        assert (answer.status, used(front)) == (200, answer.json()["count"])
    assert lines(capsys)[-1]["prompt_tokens"] == 0


def used(front: RunningGateway) -> int:
    """Returns tokens of the last minute of `KEY`."""
    key = front.gateway.keys.holder(f"Bearer {KEY}".encode())
    return front.gateway.budgets.usage(key).spent.tokens


@in_loop
async def test_a_body_slower_than_the_least_rate_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.exchange.GRACE_SECONDS", 0.05)
    async with running_gateway(tmp_path) as front:
        talk = front.opened(CHAT, parts=[b"{", b""])
        talk.receive = first_then_nothing(talk.receive)
        assert (await talk.run()).status == 408
