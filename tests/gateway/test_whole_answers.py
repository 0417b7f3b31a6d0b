"""Whole answers are held until their end: their bytes are a tenant's, and what was sent is counted if it breaks off."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway import gateway as state
from gateway.events import Event
from gateway.tensors import Output
from tests.gateway.asking import CHAT, KEY, RunningGateway, chat, in_loop, key_line, lines, running_gateway
from tests.gateway.triton import Event as Sent
from tests.gateway.triton import Script

TOKENS, OTHERS = 150, 20
COMPLETION = {"model": "llama", "prompt": "hello", "max_tokens": TOKENS}


def likely(tokens: int) -> Event:
    """An event of a token with its alternatives."""
    ids, chances = range(OTHERS), [-1.0] * OTHERS
    outputs = {
        "token_ids": Output("INT32", (1,), struct.pack("<i", 5)),
        "token_logprobs": Output("FP32", (1,), struct.pack("<f", -1.0)),
        "top_logprob_ids": Output("INT32", (1, OTHERS), struct.pack(f"<{OTHERS}i", *ids)),
        "top_logprobs": Output("FP32", (1, OTHERS), struct.pack(f"<{OTHERS}f", *chances)),
    }
    return Event(0, "ab", (5,), "length" if tokens else "", tokens, 0, outputs)


def serve_likely(front: RunningGateway) -> None:
    """Replaces the servers by one that sends log probabilities."""

    async def stream(*_: Any) -> AsyncIterator[Event]:
        for number in range(TOKENS):
            yield likely(TOKENS if number == TOKENS - 1 else 0)

    front.gateway.fleet.stream = stream


WANTED = {
    CHAT: chat(max_tokens=TOKENS, logprobs=True, top_logprobs=OTHERS),
    "/v1/completions": {**COMPLETION, "logprobs": OTHERS},
}


@pytest.mark.parametrize("path", WANTED)
@in_loop
async def test_log_probabilities_of_a_whole_answer_have_the_bytes_of_a_tenant(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """131,072 tokens with 20 alternatives held a gibibyte for each request, without a limit (2026-11-28). A key pays
    for an answer that is given up.
    """
    async with running_gateway(tmp_path) as front:
        serve_likely(front)
        whole = await front.ask(path, WANTED[path])
        listed = whole.json()["choices"][0]["logprobs"]
        assert len(listed["content"] if path == CHAT else listed["tokens"]) == TOKENS
        assert front.gateway._answers == {}
        monkeypatch.setattr(state, "TENANT_ANSWER_BYTES", 300_000)
        refused = await front.ask(path, WANTED[path])
        assert front.gateway._answers == {}
    assert (refused.status, refused.error["code"]) == (429, "answer_too_large")
    assert "stream" in refused.error["message"]
    assert refused.headers["x-should-retry"] == "false"
    capsys.readouterr()


@in_loop
async def test_an_answer_that_was_given_up_costs_its_reservation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", tokens_per_minute=1000)]}))
        front.gateway.keys.refresh()
        serve_likely(front)
        monkeypatch.setattr(state, "TENANT_ANSWER_BYTES", 100_000)
        assert (await front.ask(CHAT, WANTED[CHAT])).status == 429
        assert (await front.chat(max_tokens=1)).headers["x-ratelimit-remaining-tokens"] < "850"


@in_loop
async def test_echoes_of_many_choices_have_the_bytes_of_a_tenant(tmp_path: Path) -> None:
    """A body of 650 KiB led to an answer of 93 MiB, and ten such bodies to 1 GiB (2026-11-28), without any model."""
    prompts = ["word " * 26_000] * 8
    body = {**COMPLETION, "prompt": prompts, "n": 128, "echo": True, "max_tokens": 1}
    async with running_gateway(tmp_path, llm={"context_tokens": 131_072}) as front:
        refused = await front.ask("/v1/completions", body)
        few = await front.ask("/v1/completions", {**body, "n": 1})
        assert len(front.triton.requests) == len(prompts)
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    assert [choice["text"][:5] for choice in few.json()["choices"]] == ["word "] * 8


@in_loop
async def test_a_client_that_leaves_early_pays_for_everything_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine joins tokens in an event while its client reads slowly; each event counted as one (2026-11-28)."""
    events = (*(Sent("four words of text in one event ") for _ in range(10)), Sent("", finish="stop", tokens=80))
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", tokens_per_minute=1000)]}))
        front.gateway.keys.refresh()
        front.triton.script = Script(events=events, halts_after=10)
        conversation = front.opened(CHAT, chat(stream=True, max_tokens=100))
        running = asyncio.ensure_future(conversation.run())
        await conversation.until(lambda: conversation.answer.body.count(b"four words") == 10)
        conversation.left.set()
        await running
        (line,) = lines(capsys)
        (key,) = front.gateway.keys._keys.values()
        used = front.gateway.budgets.usage(key).ended.completion_tokens
    assert line["end"] == "left"
    assert used == 10 * len("four words of text in one event ") // 8
