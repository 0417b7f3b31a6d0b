"""Aliases that split their requests over models, and aliases with another model as a fallback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fields import FieldError
from gateway.routing import drawn
from gateway.settings import settings_of
from tests.gateway.asking import (
    CHAT,
    OTHER_KEY,
    RunningGateway,
    chat,
    in_loop,
    key_line,
    lines,
    running_gateway,
    settings,
)
from tests.gateway.triton import HELLO, Script

DOWN = (grpc.StatusCode.UNAVAILABLE, "connection refused")


def two_models(folder: Path, **alias: Any) -> dict[str, Any]:
    """Returns settings with `llama` on the first server, `next` on the second, and the alias `chat`."""
    llm = {"kind": "llm", "files": str(folder / "weights"), "context_tokens": 200}
    return {
        "models": {
            "llama": {**llm, "servers": ["host-0/main"]},
            "next": {**llm, "servers": ["host-1/main"], "context_tokens": 100},
        },
        "aliases": {"chat": alias},
    }


def counts(front: RunningGateway) -> list[int]:
    return [len(triton.requests) for triton in front.tritons]


@in_loop
async def test_a_split_follows_its_weights_and_names_the_model_that_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alias = {"shares": {"llama": 50, "next": 50}, "sticky": "request"}
    async with running_gateway(tmp_path, tritons=2, **two_models(tmp_path, **alias)) as front:
        answers = [await front.chat(model="chat") for _ in range(60)]
        page = front.gateway.metrics.page()
    named = [answer.headers["x-enginehouse-model"] for answer in answers]
    assert {answer.json()["model"] for answer in answers} == {"chat"}
    assert 10 <= named.count("next") == len(front.tritons[1].requests) <= 50
    assert [(line["alias"], line["model"]) for line in lines(capsys)] == [("chat", name) for name in named]
    of_next = 'enginehouse_gateway_alias_requests_total{alias="chat",model="next",instead_of=""}'
    assert f"{of_next} {named.count('next')}" in page


@in_loop
async def test_a_split_keeps_a_key_and_a_session_on_the_same_model(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2, **two_models(tmp_path, shares={"llama": 1, "next": 1})) as front:
        for session in range(20):
            headers = {"x-session-affinity": str(session)}
            answers = [await front.ask(CHAT, chat(model="chat"), headers=headers) for _ in range(2)]
            assert len({answer.headers["x-enginehouse-model"] for answer in answers}) == 1
        assert min(counts(front)) > 0


@given(st.integers(0, 100), st.integers(0, 100), st.binary(max_size=8))
def test_a_larger_canary_keeps_the_keys_of_the_smaller_one(first: int, second: int, key: bytes) -> None:
    small, large = sorted((first, second))
    before, after = (drawn((("llama", 100 - share), ("next", share)), key) for share in (small, large))
    assert (before, after) != ("next", "llama")


@in_loop
async def test_a_fallback_answers_at_once_if_no_server_of_the_model_is_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = two_models(tmp_path, model="llama", fallback="next")
    async with running_gateway(tmp_path, tritons=2, **values) as front:
        front.tritons[0].is_ready = False
        await front.gateway.fleet.look()
        answers = [await front.chat(model="chat"), await front.chat(model="chat", stream=True)]
        assert counts(front) == [0, 2]
        assert (await front.chat(model="chat")).json()["model"] == "chat"
    assert [(answer.status, answer.headers["x-enginehouse-model"]) for answer in answers] == [(200, "next")] * 2
    assert answers[1].events[-1] == "[DONE]"
    assert {(line["model"], line["instead_of"]) for line in lines(capsys)} == {("next", "llama")}


@in_loop
async def test_a_fallback_answers_only_before_the_models_first_token(tmp_path: Path) -> None:
    values = two_models(tmp_path, model="llama", fallback="next")
    for error_after, status, count in ((0, 200, [1, 1]), (1, 200, [1, 0])):
        async with running_gateway(tmp_path, tritons=2, **values) as front:
            front.tritons[0].script = Script(HELLO, error=DOWN, error_after=error_after)
            answer = await front.chat(model="chat", stream=True)
            assert (answer.status, counts(front)) == (status, count)
            assert (answer.events[-1] == "[DONE]") is (error_after == 0)


@in_loop
async def test_a_request_unfit_for_the_fallback_gets_its_own_models_error(tmp_path: Path) -> None:
    values = two_models(tmp_path, model="llama", fallback="next")
    async with running_gateway(tmp_path, tritons=2, **values) as front:
        front.tritons[0].is_ready = False
        await front.gateway.fleet.look()
        answer = await front.chat("the cat sat " * 40, model="chat")
    assert (answer.status, answer.error["code"]) == (503, "unavailable")


@in_loop
async def test_a_key_may_use_an_alias_by_name_or_by_all_models(tmp_path: Path) -> None:
    values = two_models(tmp_path, shares={"llama": 1, "next": 1})
    async with running_gateway(tmp_path, tritons=2, **values) as front:
        statuses = []
        for models in (["chat"], ["llama", "next"], ["llama"]):
            front.keys_file.write_text(json.dumps({"keys": [key_line(OTHER_KEY, "umbrella", models)]}))
            await front.gateway.refresh()
            listed = [model["id"] for model in (await front.ask("/v1/models", key=OTHER_KEY)).json()["data"]]
            answer = await front.ask(CHAT, chat(model="chat"), key=OTHER_KEY)
            statuses.append((answer.status, "chat" in listed))
    assert statuses == [(200, True), (200, True), (404, False)]


@in_loop
async def test_a_split_is_listed_with_the_context_that_all_of_its_models_have(tmp_path: Path) -> None:
    values = two_models(tmp_path, shares={"llama": 1, "next": 1})
    async with running_gateway(tmp_path, tritons=2, **values) as front:
        assert (await front.ask("/v1/models/chat")).json()["max_model_len"] == 100


@pytest.mark.parametrize(
    "alias",
    [
        {"shares": {}},
        {"shares": {"llama": 0, "next": 0}},
        {"shares": {"llama": -1, "next": 2}},
        {"shares": {"llama": 1, "chat": 1}},
        {"shares": {"llama": 1, "unknown": 1}},
        {"shares": {"llama": 1, "bge": 1}},
        {"shares": {"nomic": 1}},
        {"model": "llama", "fallback": "llama"},
        {"model": "llama", "fallback": "bge"},
        {"model": "llama", "fallback": "chat"},
        {"model": "llama", "fallback": "next", "sticky": "day"},
    ],
)
def test_an_impossible_alias_is_refused(tmp_path: Path, alias: dict[str, Any]) -> None:
    values = settings(["127.0.0.1:1", "127.0.0.1:2"], tmp_path, None)
    two = two_models(tmp_path, **alias)
    values["models"] |= two["models"]
    with pytest.raises(FieldError):
        settings_of(values | {"aliases": two["aliases"]})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/responses", {"input": "hello"}),
        ("/v2/chat", {"messages": [{"role": "user", "content": "hello"}]}),
    ],
)
@in_loop
async def test_a_fallback_answers_in_every_dialect(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    values = two_models(tmp_path, model="llama", fallback="next")
    async with running_gateway(tmp_path, tritons=2, **values) as front:
        front.tritons[0].is_ready = False
        await front.gateway.fleet.look()
        answer = await front.ask(path, body | {"model": "chat"})
    assert (answer.status, answer.headers["x-enginehouse-model"]) == (200, "next")
