"""Limits of keys per minute and at once, and the headers that report them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.account import Account
from gateway.budgets import Budgets
from gateway.errors import ApiError
from gateway.keys import Key, KeyLimits
from gateway.quotas import duration
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


async def limited(front: RunningGateway, **limits: int) -> None:
    """Gives `KEY` these limits; `OTHER_KEY`, of another tenant, has none."""
    keys = [key_line(KEY, "acme", **limits), key_line(OTHER_KEY, "umbrella")]
    front.keys_file.write_text(json.dumps({"keys": keys}))
    await front.gateway.refresh()


@in_loop
async def test_a_request_too_many_is_refused_as_openai_does(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await limited(front, requests_per_minute=2)
        answers = [await front.chat() for _ in range(3)]
        reached = len(front.triton.requests)
        assert (await front.ask("/v1/models")).status == 200
    assert ([answer.status for answer in answers], reached) == ([200, 200, 429], 2)
    remaining = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
    assert (remaining, answers[0].headers["x-ratelimit-limit-requests"]) == (["1", "0", "0"], "2")
    refusal = answers[2]
    assert {name: refusal.error[name] for name in ("type", "param", "code")} == {
        "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded",
    }  # fmt: skip
    assert 59 <= int(refusal.headers["retry-after"]) <= 60
    assert refusal.headers["x-ratelimit-reset-requests"] in ("59s", "1m0s", "1m1s")
    assert "x-ratelimit-limit-tokens" not in refusal.headers


@in_loop
async def test_a_chat_reserves_prompt_and_max_tokens_and_pays_used_ones(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await limited(front, tokens_per_minute=300)
        answer = await front.chat(max_tokens=100, n=1)
        usage = answer.json()["usage"]
        reserved = 300 - int(answer.headers["x-ratelimit-remaining-tokens"])
        left = (await front.chat(max_tokens=150)).headers["x-ratelimit-remaining-tokens"]
        refused = await front.chat(max_tokens=150, n=2)
    assert reserved == usage["prompt_tokens"] + 100
    assert int(left) == 300 - usage["total_tokens"] - usage["prompt_tokens"] - 150
    assert (refused.status, refused.headers["x-should-retry"]) == (429, "false")
    assert "max_tokens" in refused.error["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"model": "nomic", "input": ["one two", "three"]}),
        ("/embed", {"inputs": ["one two", "three"], "model": "nomic"}),
        ("/v2/rerank", {"model": "bge", "query": "one", "documents": ["one two", "three"]}),
        ("/rerank", {"query": "one", "texts": ["one two", "three"]}),
        ("/v1/completions", {"model": "llama", "prompt": "hello"}),
    ],
)
@in_loop
async def test_every_model_uses_tokens(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async with running_gateway(tmp_path) as front:
        await limited(front, tokens_per_minute=1000)
        answer = await front.ask(path, body)
        used = front.gateway.budgets.usage(front.gateway.keys.holder(f"Bearer {KEY}".encode()))
    assert answer.status == 200
    assert 0 < used.spent.tokens < 1000 - int(answer.headers["x-ratelimit-remaining-tokens"])
    assert used.ended.prompt_tokens + used.ended.completion_tokens == used.spent.tokens


@pytest.mark.parametrize(
    ("streams", "script", "leaves", "used"),
    [
        (True, Script(halts_after=1), True, "an event"),
        (False, Script(halts_after=1), True, "all"),
        (True, Script(error=(grpc.StatusCode.UNAVAILABLE, "x")), False, "nothing"),
        (True, Script(error=(grpc.StatusCode.INTERNAL, "x"), error_after=2), False, "two events"),
    ],
)
@in_loop
async def test_a_client_that_disconnects_pays_for_the_generated_tokens(
    tmp_path: Path, streams: bool, script: Script, leaves: bool, used: str
) -> None:
    """A free disconnect would let clients read an answer up to its last event without payment."""
    async with running_gateway(tmp_path, hold_seconds=0) as front:
        await limited(front, tokens_per_minute=1000)
        front.triton.script = script
        talk = front.opened(CHAT, chat(stream=streams, max_tokens=100))
        running = asyncio.ensure_future(talk.run())
        if leaves:
            await becomes(lambda: front.triton.running == 1)
            if streams:
                await talk.until(lambda: b"Hel" in talk.answer.body)
            talk.left.set()
        await running
        prompt = len(front.triton.requests[0].tensors["prompt_token_ids"])
        key = front.gateway.keys.holder(f"Bearer {KEY}".encode())
        spent = front.gateway.budgets.usage(key).spent
    tokens = {"an event": prompt + 1, "all": prompt + 100, "nothing": 0, "two events": prompt + 2}
    assert (spent.tokens, spent.running) == (tokens[used], 0)


@in_loop
async def test_a_thousand_requests_of_one_tenant_delay_no_other_tenant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four of them run and the others are refused immediately; the other tenant gets its answer meanwhile."""
    async with running_gateway(tmp_path) as front:
        await limited(front, concurrent=4)
        front.triton.script = Script(halts_after=1)
        talks = [front.opened(CHAT, chat(stream=True)) for _ in range(1000)]
        tasks = [asyncio.ensure_future(talk.run()) for talk in talks]
        await becomes(lambda: front.triton.running == 4 and sum(task.done() for task in tasks) == 996)
        assert (await front.ask("/v1/embeddings", {"model": "nomic", "input": "x"}, key=OTHER_KEY)).status == 200
        assert (await front.chat()).headers["retry-after"] == "1"
        for talk in talks:
            talk.left.set()
        await asyncio.gather(*tasks)
        assert (await front.ask("/v1/embeddings", {"model": "nomic", "input": "x"})).status == 200
    assert Counter(talk.answer.status for talk in talks) == {200: 4, 429: 996}
    ends = Counter((line["tenant"], line["status"]) for line in lines(capsys))
    assert ends == {("acme", 429): 997, ("acme", 200): 5, ("umbrella", 200): 1}


@in_loop
async def test_changed_limits_apply_to_new_requests_and_end_no_stream(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        await limited(front, concurrent=1)
        front.app.sweep(0)
        assert ((await front.chat()).status, running.done()) == (429, False)
        talk.left.set()
        await running


@in_loop
async def test_a_killed_gateway_releases_its_requests_and_the_minute_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of a host, one with a stream; then only the other."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with running_gateway(tmp_path / "a") as killed, running_gateway(tmp_path / "b") as survivor:
        for front in (killed, survivor):
            await limited(front, concurrent=1, requests_per_minute=3)
        killed.triton.script = Script(halts_after=1)
        talk = killed.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        assert (await survivor.chat()).status == 429
        killed.gateway.budgets._shared.abandon()
        assert [(await survivor.chat()).status for _ in range(3)] == [200, 200, 429]
        talk.left.set()
        await running


def test_without_a_usable_folder_each_process_admits_its_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    budgets = Budgets(str(tmp_path / "missing"), lambda: now[0])
    budgets.processes = 4
    key = Key("k", "k", "t", frozenset(), 0, KeyLimits(requests_per_minute=9))
    assert taken_on(budgets, key, 9) == 3
    (tmp_path / "missing").mkdir()
    assert taken_on(budgets, key, 9) == 0
    now[0] += 10
    assert taken_on(budgets, key, 10) == 9
    assert capsys.readouterr().err.count("alone") == 1


def test_a_locked_account_is_settled_later(tmp_path: Path) -> None:
    account, blocker = (Account(str(tmp_path), lambda: 1000.0) for _ in range(2))
    with account.looked_at("k") as spent:
        account.begin("k", spent.now)
        account.reserve("k", spent.now, 100)
    with blocker.looked_at("k"), suppress(Exception):
        account.settle("k", 1000, 100, 5, 2)
    with account.looked_at("k") as spent:
        assert (spent.tokens, spent.running) == (7, 0)
    account.close()
    blocker.close()


def test_spans_are_written_as_openai_writes_them() -> None:
    assert [duration(seconds) for seconds in (0, 1, 59, 60, 3661)] == ["0s", "1s", "59s", "1m0s", "1h1m1s"]


def taken_on(budgets: Budgets, key: Key, requests: int) -> int:
    """Returns the number of admitted requests among `requests` concurrent requests."""
    count = 0
    for _ in range(requests):
        with suppress(ApiError):
            budgets.lease(key).begin()
            count += 1
    return count
