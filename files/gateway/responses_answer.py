"""Answers of `/v1/responses`: the response and its events."""

from __future__ import annotations

import base64
import time
from typing import Any

from gateway.answer_parts import Call, Content, Reasoning
from gateway.dialects import Block, Blocks, NamedEvent, Step
from gateway.errors import ApiError
from gateway.generation import Generation

SEAL = "plain:"
"""Start of this gateway's `encrypted_content`: the reasoning's text in base64. Nothing in it is secret; the client
has it."""


ECHOED = (
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "top_p",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)


def echo_of(body: dict[str, Any]) -> dict[str, Any]:
    """The response's fields that repeat the request's, and fixed values for features that this server lacks."""
    text, reasoning, tools = (body.get(name) for name in ("text", "reasoning", "tools"))
    form = text.get("format") if isinstance(text, dict) else None
    echo = {
        "background": False,
        "instructions": body.get("instructions"),
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None} | (reasoning if isinstance(reasoning, dict) else {}),
        "service_tier": "default",
        "store": False,
        "text": {"format": form or {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [_echoed_tool(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else [],
        "top_logprobs": 0,
        "truncation": "disabled",
    }
    return echo | {name: body.get(name) for name in ECHOED}


def _echoed_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"description": None, "parameters": None, "strict": None} | tool


def sealed(text: str) -> str:
    return SEAL + base64.b64encode(text.encode()).decode()


def unsealed(content: object) -> str:
    """The reasoning in a sealed content of ours; "" for another server's."""
    if not isinstance(content, str) or not content.startswith(SEAL):
        return ""
    try:
        return base64.b64decode(content.removeprefix(SEAL), validate=True).decode()
    except ValueError:
        return ""


class ResponseWriter:
    """A response: an item for each of reasoning, text and calls; the events are numbered in their order."""

    ends_with_done = False

    def __init__(self, chat: Generation, echo: dict[str, Any], seals: bool = False) -> None:
        """`seals`: the client asked for `encrypted_content`, without which it sends no reasoning back."""
        self._chat, self._echo, self._seals = chat, echo, seals
        self._identity = chat.request.exchange.identity
        self._next_number = 0
        self._items: list[dict[str, Any]] = []
        self._has_begun = False

    def begin(self) -> list[NamedEvent]:
        """The events `created` and `in progress`."""
        self._has_begun = True
        response = self._response("in_progress")
        names = ("response.created", "response.in_progress")
        return self._numbered(*((name, {"response": response}) for name in names))

    def step(self, step: Step) -> list[NamedEvent]:
        """The start of an item, its additions, and its end."""
        kind, block, text = step
        if kind == "begin":
            return self._begun(block)
        return self._ended(block) if kind == "end" else self._added(block, text)

    def end(self, blocks: Blocks, finish: str) -> list[NamedEvent]:
        """The last events, with the whole response. A response without an item has an empty message."""
        events: list[NamedEvent] = []
        if not blocks.blocks:
            for part_of_empty in blocks.feed(Content("")), blocks.end():
                events += [event for step in part_of_empty for event in self.step(step)]
        response = self.whole(blocks, finish)
        return events + self._numbered((f"response.{response['status']}", {"response": response}))

    def failure(self, error: ApiError) -> NamedEvent:
        """The events of a failed response so far; before its beginning only the error."""
        if not self._has_begun:
            fields = {"code": error.code, "message": error.message, "param": error.param}
            return self._numbered(("error", fields | {"error": error.to_json()["error"]}))[0]
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = {"error": {"code": code, "message": error.message}, "output": self._items}
        return self._numbered(("response.failed", {"response": self._response("failed") | failed}))[0]

    def whole(self, blocks: Blocks, finish: str) -> dict[str, Any]:
        """The response with its items and usage."""
        is_whole = finish == "stop"
        items = [self._item(block, "completed") for block in blocks.blocks]
        if not items:
            items = [self._item(Block(0, Content), "completed")]
        if not is_whole:
            items[-1]["status"] = "incomplete"
        more = {"output": items, "usage": self._usage()}
        if is_whole:
            return self._response("completed") | more | {"completed_at": int(time.time())}
        return self._response("incomplete") | more | {"incomplete_details": {"reason": "max_output_tokens"}}

    def _begun(self, block: Block) -> list[NamedEvent]:
        item = self._item(Block(block.number, block.kind, "", block.name, block.identity), "in_progress")
        item |= {} if block.kind is Call else {"content": []}
        added = ("response.output_item.added", {"output_index": block.number, "item": item})
        if block.kind is Call:
            return self._numbered(added)
        part = {**self._place(block), "content_index": 0, "part": _part(block, "")}
        return self._numbered(added, ("response.content_part.added", part))

    def _added(self, block: Block, text: str) -> list[NamedEvent]:
        return self._numbered(
            (f"response.{_subject(block)}.delta", {**self._place(block), "delta": text, **_more(block)})
        )

    def _ended(self, block: Block) -> list[NamedEvent]:
        item, place = self._item(block, "completed"), self._place(block)
        self._items.append(item)
        done = ("response.output_item.done", {"output_index": block.number, "item": item})
        name = f"response.{_subject(block)}.done"
        if block.kind is Call:
            return self._numbered((name, {**place, "arguments": item["arguments"], "name": block.name}), done)
        part = {**place, "content_index": 0, "part": _part(block, block.text)}
        text = {**place, "text": block.text, **_more(block)}
        return self._numbered((name, text), ("response.content_part.done", part), done)

    def _place(self, block: Block) -> dict[str, Any]:
        return {"item_id": self._name(block), "output_index": block.number}

    def _name(self, block: Block) -> str:
        prefix = {Call: "fc", Content: "msg", Reasoning: "rs"}[block.kind]
        return f"{prefix}_{self._identity}_{block.number}"

    def _item(self, block: Block, status: str) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self._name(block), "status": status}
        if block.kind is Call:
            call = {"call_id": block.identity, "name": block.name, "arguments": block.text}
            return item | {"type": "function_call"} | call
        content = [_part(block, block.text)]
        if block.kind is Reasoning:
            seal = sealed(block.text) if self._seals and status == "completed" else None
            return item | {"type": "reasoning", "summary": [], "content": content, "encrypted_content": seal}
        return item | {"type": "message", "role": "assistant", "content": content}

    def _numbered(self, *events: NamedEvent) -> list[NamedEvent]:
        first, self._next_number = self._next_number, self._next_number + len(events)
        return [
            (name, {"type": name, "sequence_number": number, **value})
            for number, (name, value) in enumerate(events, first)
        ]

    def _response(self, status: str) -> dict[str, Any]:
        head = {"id": f"resp_{self._identity}", "object": "response", "created_at": self._chat.created}
        state: dict[str, Any] = {
            "status": status,
            "error": None,
            "incomplete_details": None,
            "usage": None,
            "output": [],
        }
        return head | state | {"model": self._chat.name} | self._echo

    def _usage(self) -> dict[str, Any]:
        usage = self._chat.usage()
        reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
        return {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {**usage["prompt_tokens_details"], "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": usage["total_tokens"],
        }


def _subject(block: Block) -> str:
    return {Call: "function_call_arguments", Content: "output_text", Reasoning: "reasoning_text"}[block.kind]


def _part(block: Block, text: str) -> dict[str, Any]:
    if block.kind is Reasoning:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _more(block: Block) -> dict[str, Any]:
    if block.kind is Call:
        return {}
    return {"content_index": 0} | ({"logprobs": []} if block.kind is Content else {})
