"""Answers of `/v1/messages`: the message, its events, and errors in Anthropic's shape."""

from __future__ import annotations

from typing import Any

from gateway.answer_parts import Call, Reasoning
from gateway.dialects import Block, Blocks, NamedEvent, Step
from gateway.errors import ApiError
from gateway.generation import Generation

ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
STOPS = {"stop": "end_turn", "length": "max_tokens"}
SIGNATURE = "unsigned"
"""Clients send a thought back only if it has a signature; nothing is signed here."""
NO_THREADS = "thread_unsupported_request"
"""The code in the details of a refusal, after which the client sends the whole history (anthropic 2.14, 2026-11-27)."""


def anthropic_error(error: ApiError) -> dict[str, Any]:
    """The error in Anthropic's form."""
    kind = ERRORS.get(error.status, "invalid_request_error")
    details = {"error_code": NO_THREADS, "unsupported": ["thread"]}
    more = {"details": details} if error.code == NO_THREADS else {}
    return {"type": "error", "error": {"type": kind, "message": error.message} | more}


class MessageWriter:
    """A message: a block for each of thinking, text and calls."""

    ends_with_done = False

    def __init__(self, chat: Generation) -> None:
        self._chat = chat

    def begin(self) -> list[NamedEvent]:
        """The message without content, and then a ping, as Anthropic's server sends them."""
        message = self._message([], None)
        return [_event("message_start", message=message), _event("ping")]

    def step(self, step: Step) -> list[NamedEvent]:
        """The start of a block, its new content, and its end."""
        kind, block, text = step
        place = {"index": block.number}
        if kind == "begin":
            empty = _block(Block(block.number, block.kind, "", block.name, block.identity))
            return [_event("content_block_start", **place, content_block=empty)]
        if kind == "add":
            return [_event("content_block_delta", **place, delta=_delta(block, text))]
        events = [_event("content_block_stop", **place)]
        if block.kind is Reasoning:
            delta = {"type": "signature_delta", "signature": SIGNATURE}
            events.insert(0, _event("content_block_delta", **place, delta=delta))
        return events

    def end(self, blocks: Blocks, finish: str) -> list[NamedEvent]:
        """The events of the end: reason, usage, and stop."""
        delta = {"stop_reason": self._stop(blocks, finish), "stop_sequence": None}
        return [_event("message_delta", delta=delta, usage=self._usage()), _event("message_stop")]

    def failure(self, error: ApiError) -> NamedEvent:
        return "error", anthropic_error(error)

    def whole(self, blocks: Blocks, finish: str) -> dict[str, Any]:
        """The message with all its blocks."""
        content = [_block(block) for block in blocks.blocks]
        for block in content:
            block |= {"signature": SIGNATURE} if block["type"] == "thinking" else {}
        return self._message(content, self._stop(blocks, finish))

    def _stop(self, blocks: Blocks, finish: str) -> str:
        if finish == "length" and self._chat.is_cut:
            return "model_context_window_exceeded"
        return "tool_use" if blocks.has_called and finish == "stop" else STOPS[finish]

    def _message(self, content: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
        head = {"id": f"msg_{self._chat.request.exchange.identity}", "type": "message", "role": "assistant"}
        end = {"stop_reason": stop, "stop_sequence": None, "usage": self._usage()}
        return {**head, "model": self._chat.name, "content": content, **end}

    def _usage(self) -> dict[str, int]:
        """The usage; tokens of a cached prefix are counted apart from the rest of the prompt."""
        usage = self._chat.usage()
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return {
            "input_tokens": usage["prompt_tokens"] - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": usage["completion_tokens"],
        }


def _event(kind: str, **fields: Any) -> NamedEvent:
    return kind, {"type": kind, **fields}


def _block(block: Block) -> dict[str, Any]:
    if block.kind is Call:
        return {"type": "tool_use", "id": block.identity, "name": block.name, "input": block.arguments}
    if block.kind is Reasoning:
        return {"type": "thinking", "thinking": block.text, "signature": ""}
    return {"type": "text", "text": block.text}


def _delta(block: Block, text: str) -> dict[str, Any]:
    if block.kind is Call:
        return {"type": "input_json_delta", "partial_json": text}
    return (
        {"type": "thinking_delta", "thinking": text}
        if block.kind is Reasoning
        else {"type": "text_delta", "text": text}
    )
