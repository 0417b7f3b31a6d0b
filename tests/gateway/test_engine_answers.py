"""An LLM behind an engine over HTTP answers byte for byte as behind Triton, to every kind of request."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.gateway.asking import CHAT, OTHER_KEY, RunningGateway, becomes, chat, in_loop, running_gateway
from tests.gateway.test_tools import ADD, NOW, TOOLS_TEMPLATE, TURN, WRITTEN
from tests.gateway.triton import HELLO, Event, Script

COMPLETIONS, RESPONSES, MESSAGES, COHERE = "/v1/completions", "/v1/responses", "/v1/messages", "/v2/chat"
MODEL = {"tool_parser": "hermes", "reasoning_parser": "qwen3", "context_tokens": 2000}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
CALL = Script((*(Event(piece) for piece in WRITTEN), Event("", finish="stop", tokens=9)))
CUT = Script((Event("Hel", ids=(300,)), Event("", finish="length", tokens=1)))
IDS = Script((Event("He", ids=(300, 301)), Event("llo", ids=(302,)), Event("", finish="stop", tokens=3, cached=1)))
THOUGHT = Script((Event("<think>hm"), Event(" so</think>\n\n"), Event("2"), Event("", finish="stop", tokens=7)))
FULL = Script(error=(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8"))
FAILS = Script(error=(grpc.StatusCode.INTERNAL, "secret"))
BREAKS = Script(error=(grpc.StatusCode.INTERNAL, "secret"), error_after=2)
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
TEXT = {"model": "llama", "prompt": "the cat"}

CASES: dict[str, tuple[str, dict[str, Any], Script]] = {
    "whole": (CHAT, chat(), Script()),
    "streamed": (CHAT, chat(stream=True), Script()),
    "usage": (CHAT, chat(**STREAM), Script()),
    "cut": (CHAT, chat(max_tokens=1), CUT),
    "cut-streamed": (CHAT, chat(max_tokens=1, **STREAM), CUT),
    "greedy": (CHAT, chat(temperature=0), Script()),
    "sampled": (CHAT, chat(temperature=0.5, top_p=0.5, top_k=7, min_p=0.25, seed=3), Script()),
    "penalties": (CHAT, chat(frequency_penalty=0.5, presence_penalty=-0.5, repetition_penalty=1.5), Script()),
    "all-tokens": (CHAT, chat(top_k=-1), Script()),
    "no-mass": (CHAT, chat(top_p=0), Script()),
    "stop": (CHAT, chat(stop=["\n", "END"]), Script()),
    "least": (CHAT, chat(min_tokens=3, max_tokens=4), Script()),
    "least-without-most": (CHAT, chat(min_tokens=1999), Script()),
    "several": (CHAT, chat(n=3), Script()),
    "several-streamed": (CHAT, chat(n=2, **STREAM), Script()),
    "several-greedy": (CHAT, chat(n=2, temperature=0), Script()),
    "several-greedy-streamed": (CHAT, chat(n=2, temperature=0, **STREAM), Script()),
    "logprobs": (CHAT, chat(logprobs=True), IDS),
    "top-logprobs": (CHAT, chat(logprobs=True, top_logprobs=2), IDS),
    "top-logprobs-streamed": (CHAT, chat(logprobs=True, top_logprobs=3, **STREAM), IDS),
    "json": (CHAT, chat(response_format={"type": "json_object"}), Script()),
    "schema": (CHAT, chat(response_format=JSON_SCHEMA, stream=True), Script()),
    "regex": (CHAT, chat(guided_regex="a+"), Script()),
    "choice": (CHAT, chat(structured_outputs={"choice": ["a", "b"]}), Script()),
    "call": (CHAT, chat(tools=[ADD]), CALL),
    "call-streamed": (CHAT, chat(tools=[ADD, NOW], **STREAM), CALL),
    "call-demanded": (CHAT, chat(tools=[ADD], tool_choice="required"), Script((Event("[]", finish="stop"),))),
    "calls-of-before": (CHAT, {"model": "llama", "messages": TURN, "tools": [ADD]}, Script()),
    "reasoning": (CHAT, chat(), THOUGHT),
    "reasoning-streamed": (CHAT, chat(**STREAM), THOUGHT),
    "completion": (COMPLETIONS, TEXT, Script()),
    "completion-streamed": (COMPLETIONS, {**TEXT, **STREAM}, Script()),
    "completion-of-ids": (COMPLETIONS, {**TEXT, "prompt": [5, 6, 7]}, Script()),
    "completion-logprobs": (COMPLETIONS, {**TEXT, "logprobs": 2}, IDS),
    "completion-echo": (COMPLETIONS, {**TEXT, "echo": True, "max_tokens": 2}, Script()),
    "responses": (RESPONSES, {"model": "llama", "input": "hello"}, Script()),
    "responses-streamed": (RESPONSES, {"model": "llama", "input": "hello", "stream": True}, Script()),
    "messages": (MESSAGES, chat(max_tokens=5), Script()),
    "messages-streamed": (MESSAGES, chat(max_tokens=5, stream=True), CALL),
    "cohere": (COHERE, chat(), Script()),
    "alias": (CHAT, chat() | {"model": "gpt-4o"}, Script()),
    "full": (CHAT, chat(), FULL),
    "failed": (CHAT, chat(), FAILS),
    "failed-streamed": (CHAT, chat(**STREAM), FAILS),
    "unknown-model": (CHAT, chat() | {"model": "nobody"}, Script()),
    "too-long": (CHAT, chat("cat " * 2500), Script()),
    "too-many-asked": (CHAT, chat(max_tokens=2000), Script()),
}
CHANGING = re.compile(
    rb'"(?:created|created_at|completed_at)": ?\d+|[0-9a-f]{16,32}|"generation_id": ?"[^"]*"|"id": ?"[^"]*"'
)


@contextlib.asynccontextmanager
async def both(folder: Path, **more: Any) -> AsyncIterator[tuple[RunningGateway, RunningGateway]]:
    """Yields a gateway before a Triton, and one before an engine."""
    for name in ("triton", "engine"):
        (folder / name).mkdir()
    shared = {"template": TOOLS_TEMPLATE, "llm": MODEL} | more
    async with (
        running_gateway(folder / "triton", **shared) as triton,
        running_gateway(folder / "engine", runtime="vllm", **shared) as engine,
    ):
        yield triton, engine


def compared(answer: Any) -> tuple[int, bytes]:
    """Returns status and body without names and times that are new in every answer."""
    return answer.status, CHANGING.sub(b"*", answer.body)


@pytest.mark.parametrize("case", CASES)
@in_loop
async def test_an_engine_answers_as_triton(case: str, tmp_path: Path) -> None:
    path, body, script = CASES[case]
    async with both(tmp_path) as fronts:
        for front in fronts:
            front.triton.script = script
        answers = [compared(await front.ask(path, body)) for front in fronts]
        of_triton, of_engine = (front.triton.requests for front in fronts)
    assert answers[0] == answers[1]
    assert len(of_triton) == len(of_engine)
    if of_triton:
        assert of_engine[-1].tensors["prompt_token_ids"] == of_triton[-1].tensors["prompt_token_ids"]


@in_loop
async def test_both_refuse_the_same_keys(tmp_path: Path) -> None:
    async with both(tmp_path) as fronts:
        answers = [[compared(await front.ask(CHAT, chat(), key=key)) for key in (None, OTHER_KEY)] for front in fronts]
    assert answers[0] == answers[1] and [status for status, _ in answers[0]] == [401, 404]


@in_loop
async def test_an_engine_and_triton_get_the_same_sampling(tmp_path: Path) -> None:
    fields = {"temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": 3, "stop": ["x"], "max_tokens": 9, "min_tokens": 2}
    async with both(tmp_path) as fronts:
        for front in fronts:
            await front.chat(**fields, response_format=JSON_SCHEMA)
        of_triton, of_engine = (front.triton.requests[-1].tensors for front in fronts)
    names = {name for name in of_triton if name.startswith(("sampling_", "guided_", "prompt_"))}
    assert {name: of_engine.get(name) for name in names} == {name: of_triton[name] for name in names}


@in_loop
async def test_a_client_that_disconnects_ends_the_engine_s_request(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, runtime="vllm") as front:
        front.triton.script = Script(halts_after=1)
        streamed, whole = (front.opened(CHAT, chat(stream=stream)) for stream in (True, False))
        for request in (streamed, whole):
            task = asyncio.ensure_future(request.run())
            await becomes(lambda: front.triton.running == 1)
            request.left.set()
            await task
            await becomes(lambda: front.triton.running == 0)
        assert front.triton.cancelled == 2


@in_loop
async def test_connections_are_used_again(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, runtime="vllm") as front:
        for stream in (True, False, True):
            assert (await front.chat(stream=stream)).status == 200
        assert front.engine
        assert len(front.engine.bodies) == 3 and front.engine.connections == 2, "one more asked for its health"


@in_loop
async def test_the_benchmark_of_vllm_is_answered(tmp_path: Path) -> None:
    """The benchmark's random load sets `ignore_eos`, which Triton's LLM slot does not support (vLLM 0.26.0,
    2026-11-27)."""
    content = [{"type": "text", "text": "the cat"}]
    sent = {"model": "llama", "messages": [{"role": "user", "content": content}], "max_completion_tokens": 8}
    sent |= {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    plain = {**TEXT, "repetition_penalty": 1.0, "logprobs": None, "max_tokens": 8, "ignore_eos": True, **STREAM}
    async with both(tmp_path, llm={"context_tokens": 200}) as (triton, engine):
        assert (await engine.ask(CHAT, sent)).status == (await engine.ask(COMPLETIONS, plain)).status == 200
        assert engine.engine and all(body["ignore_eos"] for body in engine.engine.bodies)
        refused = await triton.ask(CHAT, sent)
    assert (refused.status, refused.error["param"]) == (400, "ignore_eos")


@in_loop
async def test_tenants_have_their_salts_and_adapters_their_names(tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("s" * 64)
    aliases = {"llama:support": {"model": "llama", "adapter": "support"}}
    more: dict[str, Any] = {"salt_file": str(tmp_path / "salt"), "aliases": aliases}
    async with running_gateway(tmp_path, runtime="vllm", llm={"salts": True}, **more) as front:
        await front.chat()
        await front.ask(CHAT, chat() | {"model": "llama:support"})
        assert front.engine
        plain, adapted = front.engine.bodies
    assert len(plain["cache_salt"]) == 32 and plain["cache_salt"] == adapted["cache_salt"]
    assert (plain["model"], adapted["model"]) == ("llama", "support")


@in_loop
async def test_trtllm_serve_gets_its_own_fields_alone(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, runtime="trtllm-serve", llm=MODEL) as front:
        answers = [await front.chat(response_format=JSON_SCHEMA), await front.chat(**STREAM)]
        refused = await front.chat(logprobs=True)
        assert front.engine
        first = front.engine.bodies[0]
    assert [answer.status for answer in answers] == [200, 200]
    assert first["response_format"] == {"type": "json_schema", "json_schema": SCHEMA}
    assert (refused.status, refused.error["param"]) == (400, "logprobs")


@in_loop
async def test_an_error_within_a_stream_ends_it_without_the_engine_s_text(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, runtime="vllm") as front:
        front.triton.script = BREAKS
        answer = await front.chat(**STREAM)
    assert answer.events[-1]["error"]["code"] == "upstream_error" and "secret" not in str(answer.body)
    assert [event["choices"][0]["delta"].get("content") for event in answer.events[1:-1]] == ["Hel", "lo wörld"]


@in_loop
async def test_events_are_forwarded_as_soon_as_the_engine_sends_them(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, runtime="vllm") as front:
        front.triton.script = Script(HELLO, halts_after=1)
        request = front.opened(CHAT, chat(stream=True))
        task = asyncio.ensure_future(request.run())
        await request.until(lambda: b"Hel" in request.answer.body)
        assert not request.answer.is_complete
        front.triton.goes_on.set()
        assert (await task).events[-1] == "[DONE]"
