"""A word in every text of requests in all dialects: no log, metric, file, header or other answer has it afterwards.

Requests are valid, broken as JSON, wrong in each place, refused by an engine that repeats the prompt, and left by their
clients. No request makes the gateway itself fail.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway import clock
from tests.gateway.asking import RunningGateway, in_loop, running_gateway
from tests.gateway.triton import Event, Script
from tests.gateway.weights import TEMPLATE

C = "thecanarysings"
REFUSED = "explode"
"""A system message at which the template raises an error with the message."""
PARSERS = {"tool_parser": "hermes", "reasoning_parser": "qwen3"}
SHOWS = (
    "{{ tools | tojson if tools }}{% for m in messages if m.tool_calls %}{% endfor %}{% for m in messages %}"
    "{% if m.role == 'system' and m.content == 'explode' %}{{ raise_exception(messages[1].content) }}{% endif %}"
    "{% endfor %}"
)
SCHEMA = {"type": "object", "properties": {C: {"enum": [C], "pattern": C}}, "$defs": {C: {"const": C}}}
TOOL = {"type": "function", "function": {"name": "a", "description": C, "parameters": SCHEMA}}
CALL = {"id": C, "type": "function", "function": {"name": "a", "arguments": json.dumps({C: C})}}
USER, SYSTEM = {"role": "user", "content": C}, {"role": "system", "content": C}
LLM, EMBEDDER, RERANKER = {"model": "llama"}, {"model": "nomic"}, {"model": "bge"}
ANSWERED = {"role": "assistant", "content": C, "tool_calls": [CALL]}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [SYSTEM, USER, ANSWERED, {"role": "tool", "tool_call_id": C, "content": C}],
                              "stop": [C], "user": C, "metadata": {C: C}}),
    ("/v1/chat/completions", {"messages": [USER], "tools": [TOOL], "tool_choice": "required"}),
    ("/v1/chat/completions", {"messages": [USER], "response_format": {
        "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}),
    ("/v1/chat/completions", {"messages": [SYSTEM | {"content": REFUSED}, USER]}),
    ("/v1/completions", {"prompt": C, "stop": C, "echo": True}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": C}]},
                                 {"type": "function_call", "call_id": C, "name": "a", "arguments": json.dumps({C: C})},
                                 {"type": "function_call_output", "call_id": C, "output": C}], "instructions": C}),
    ("/v1/responses/input_tokens", {"input": C}),
    ("/v1/messages", {"max_tokens": 9, "system": C, "messages": [USER], "stop_sequences": [C], "tool_choice": {
        "type": "any"}, "tools": [{"name": "a", "description": C, "input_schema": SCHEMA}]}),
    ("/v1/messages/count_tokens", {"messages": [USER]}),
    ("/v1/chat", {"message": C, "preamble": C, "chat_history": [{"role": "USER", "message": C}]}),
    ("/v2/chat", {"messages": [SYSTEM, USER], "stop_sequences": [C]}),
    ("/v1/tokenize", {"text": C}),
    ("/tokenize", {"prompt": C}),
    ("/v1/embeddings", EMBEDDER | {"input": [C], "user": C}),
    ("/v1/embed", EMBEDDER | {"texts": [C], "input_type": "search_query"}),
    ("/v2/embed", EMBEDDER | {"texts": [C], "input_type": "search_query"}),
    ("/v1/score", RERANKER | {"text_1": C, "text_2": [C]}),
    ("/v1/rerank", RERANKER | {"query": C, "documents": [C, {"text": C}]}),
    ("/v2/rerank", RERANKER | {"query": C, "documents": [C]}),
    ("/embed", {"inputs": [C]}),
    ("/rerank", {"query": C, "texts": [C], "return_text": True}),
]  # fmt: skip
WRONG: list[Any] = [C, {C: C}, [C]]
CODES = [code for code in grpc.StatusCode if code.name not in ("OK", "UNAVAILABLE", "NOT_FOUND", "CANCELLED")]
"""Errors of an engine; after the three others, the gateway waits for another server."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value within a body."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*at, name)
        yield from places(inner, (*at, name))


def spoiled(body: dict[str, Any], at: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    made = node = copy.deepcopy(body)
    for name in at[:-1]:
        node = node[name]
    node[at[-1]] = wrong
    return made


def broken(raw: bytes) -> list[bytes]:
    return [
        raw[:-1],
        b"\xff" + raw,
        raw.replace(C.encode(), C.encode() + b"\\ud800"),
        raw.replace(b":", b":NaN,"),
        b'{"' + C.encode() + b'":1,"' + C.encode() + b'":2}',
    ]


async def ask_all(front: RunningGateway) -> set[int]:
    """Sends every request; returns the statuses."""
    answers = []
    for path, fields in BODIES:
        body = LLM | fields
        raw = json.dumps(body).encode()
        for sent in (body, body | {"stream": True}, *broken(raw)):
            answers.append(await front.ask(path, sent))
        for more in ({"headers": {"content-type": C}}, {"key": C}, {"query": f"{C}={C}"}, {"query": f"key={C}"}):
            answers.append(await front.ask(path, raw, **more))
        answers.append(await front.ask(path, body, headers={"referer": C, "traceparent": C, "x-request-id": C}))
        for at in places(fields):
            answers += [await front.ask(path, spoiled(body, at, wrong)) for wrong in WRONG]
    assert not any(b"internal_error" in answer.body for answer in answers)
    return {answer.status for answer in answers}


async def fail_all(front: RunningGateway) -> None:
    """Sends every request to an engine that repeats the prompt in its errors and answers, or never ends."""
    scripts = [Script(error=(code, f"at {C}\n<0>{C}"), error_after=after) for code in CODES for after in (0, 1)]
    scripts += [Script(events=(Event(C), Event(C, finish=C, tokens=5)))]
    call = f'<tool_call>{{"name": "{C}", "arguments": {{"{C}": 1e999}}}}</tool_call>{C}'
    scripts += [Script(events=(Event(call), Event(C, finish="stop", tokens=5)))]
    for path, fields in BODIES:
        for number, front.triton.script in enumerate(scripts):
            await front.ask(path, LLM | fields | {"stream": bool(number % 2)})
        front.triton.script = Script(halts_after=1)
        left = front.opened(path, LLM | fields | {"stream": True})
        running = asyncio.ensure_future(left.run())
        await asyncio.sleep(0.02)
        left.left.set()
        await running
        front.triton.script = Script()


@pytest.mark.parametrize("runtime", ["", "vllm"])
@in_loop
async def test_no_word_of_a_request_or_an_answer_is_kept(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The search includes the process's error stream, to which libraries write."""
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    more: dict[str, Any] = {"template": SHOWS + TEMPLATE, "llm": PARSERS, "runtime": runtime, "trace_one_in": 1}
    async with running_gateway(tmp_path, **more) as front:
        statuses = await ask_all(front)
        await fail_all(front)
        await asyncio.to_thread(front.gateway.usage.count, clock.now())
        pages = [await front.ask(path) for path in ("/metrics", "/openapi.json", "/usage", "/", "/try", "/health")]
    assert {200, 400, 401, 415} <= statuses
    assert not [page.status for page in pages if C.encode() in page.body]
    printed = capfd.readouterr()
    assert printed.out.count('"status":') > 1000 and C not in printed.out + printed.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files)
    assert not [path.name for path in files if C.encode() in path.read_bytes()]
