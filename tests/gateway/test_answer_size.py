"""The size of an engine's answer: no more text, tokens or values than the request could be answered with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.completion_events import Completion, Malformed, parsed
from gateway.llm_request import LlmRequest
from gateway.sampling import Sampling
from tests.gateway.asking import CHAT, chat, in_loop
from tests.gateway.test_engine_attacks import CHUNKED, before, body, event, judge, text


async def endless_text(writer: asyncio.StreamWriter) -> None:
    """More text than any answer has."""
    await without_end(writer, event(text(content="a" * 100_000)))


async def endless_events(writer: asyncio.StreamWriter) -> None:
    """Events without a token."""
    await without_end(writer, event(text(content="")) * 100)


async def endless_ids(writer: asyncio.StreamWriter) -> None:
    """Sends ids of more tokens than requested."""
    await without_end(writer, event(text(content="", token_ids=[5] * 1000)))


async def without_end(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Sends the same events until the gateway leaves."""
    writer.write(CHUNKED)
    while True:
        writer.write(piece)
        await writer.drain()


@pytest.mark.parametrize("more", [{"stream": True}, {"logprobs": True}], ids=str)
@pytest.mark.parametrize("play", [endless_text, endless_events, endless_ids])
@in_loop
async def test_an_answer_of_more_than_was_asked_for_ends_by_its_size(
    play: Callable[[asyncio.StreamWriter], Awaitable[None]],
    more: dict[str, object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The size limit ends the answer long before its time limit: 300 MB came within two seconds (2026-11-27)."""
    async with before(tmp_path, play) as front:
        answer = await front.ask(CHAT, chat(max_tokens=5, **more))
    judge(answer, capsys)
    error = (answer.json() if answer.status != 200 else answer.events[-1])["error"]
    assert error["code"] == "upstream_error"


@in_loop
async def test_no_engine_counts_more_than_was_asked_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The limit applies to tokens, which reduce a tenant's budget, and for cached tokens, which cannot exceed the
    prompt."""
    usage = {"completion_tokens": 2**31 - 1, "prompt_tokens_details": {"cached_tokens": 10**9}}
    async with before(tmp_path, body({**text(finish="stop"), "usage": usage})) as front:
        answer = await front.chat(max_tokens=5)
        message = {"model": "llama", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
        anthropic = (await front.ask("/v1/messages", message)).json()["usage"]
    counts = answer.json()["usage"]
    assert counts["completion_tokens"] == 5
    assert counts["prompt_tokens_details"]["cached_tokens"] == counts["prompt_tokens"]
    assert anthropic["input_tokens"] == 0 < anthropic["cache_read_input_tokens"]
    assert '"completion_tokens":5,' in capsys.readouterr().out


@pytest.mark.parametrize("piece", [b"[],", b'{"a":1},', b"0,"])
def test_an_event_of_very_many_values_is_refused_before_it_is_parsed(piece: bytes) -> None:
    """16 MiB of empty lists held up the streams of all tenants for four seconds (2026-11-27)."""
    content = b'{"x":[' + piece * 100_000 + b'0],"choices":[]}'
    with pytest.raises(Malformed, match="too many values"):
        parsed(content)
    request = LlmRequest([1, 2], Sampling({}, 1, None, (), 0, 0, None), max_tokens=30_000)
    with pytest.raises(Malformed, match="too many values"):
        list(Completion(request).feed(b"data: " + content + b"\n"))
    prompt_and_ids = json.dumps({**text(token_ids=[5] * 30_000, finish="stop"), "usage": {"completion_tokens": 5}})
    assert Completion(request).whole(prompt_and_ids.encode())
