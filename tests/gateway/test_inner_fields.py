"""Unknown fields inside messages, parts, items and tools: ignored and named once, like unknown fields of the request
itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.asking import CHAT, in_loop
from tests.gateway.test_clients_defaults import running_gateway as default_gateway
from tests.gateway.test_tools import ADD, running_gateway

IGNORED = "x-enginehouse-ignored"
NEW: dict[str, Any] = {"colour": "red"}
CLAUDE_TOOL = {"name": "add", "input_schema": {"type": "object"}, **NEW}
ITEM_TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}, **NEW}


def sent_messages(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "llama", "messages": list(messages), **more}


def user(part: str = "text") -> dict[str, Any]:
    """Returns a message with an unknown field; the gateway reads only a part's text."""
    return {"role": "user", "content": [{"type": part, "text": "1?"}], **NEW}


CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": (CHAT, sent_messages(user(), user(), tools=[{**ADD, **NEW}]), "tools[].colour, messages[].colour"),
    "messages": (
        "/v1/messages",
        sent_messages(user(), user(), max_tokens=9, tools=[CLAUDE_TOOL], thinking={"type": "adaptive", **NEW}),
        "messages[].colour, tools[].colour, thinking.colour",
    ),
    "responses": (
        "/v1/responses",
        {"model": "llama", "input": [user("input_text")], "tools": [ITEM_TOOL], "reasoning": NEW},
        "input[].colour, tools[].colour, reasoning.colour",
    ),
    "cohere": ("/v2/chat", sent_messages(user(), tools=[{**ADD, **NEW}]), "messages[].colour, tools[].colour"),
}


@pytest.mark.parametrize("name", CASES)
@in_loop
async def test_an_unknown_inner_field_is_named_once_or_strictly_refused(tmp_path: Path, name: str) -> None:
    path, sent, ignored = CASES[name]
    async with default_gateway(tmp_path) as front:
        taken = await front.ask(path, sent)
    async with default_gateway(tmp_path, unknown_fields="refuse") as front:
        refused = await front.ask(path, sent)
    assert (taken.status, taken.headers[IGNORED]) == (200, ignored), taken.body
    assert refused.status == 400 and "unknown field" in refused.body.decode()


@in_loop
async def test_a_long_chat_may_have_an_unknown_field_in_every_message(tmp_path: Path) -> None:
    """Names are counted, not places: a chat grows, and its client sends the same fields with every message."""
    message = {"role": "user", "content": "a", **NEW}
    async with running_gateway(tmp_path, context_tokens=20_000) as front:
        answer = await front.ask(CHAT, sent_messages(*[message] * 300))
        names = [{"role": "user", "content": "a", f"x_{number}": 1} for number in range(65)]
        many = await front.ask(CHAT, sent_messages(*names))
    assert (answer.status, answer.headers[IGNORED]) == (200, "messages[].colour"), answer.body
    assert (many.status, many.error["code"]) == (400, "unknown_parameter")


@in_loop
async def test_a_misspelt_field_within_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(
            "/v1/messages", sent_messages(user(), max_tokens=9, tools=[CLAUDE_TOOL | {"descriptoin": "x"}])
        )
    assert answer.status == 400 and "did you mean `description`" in answer.error["message"]
