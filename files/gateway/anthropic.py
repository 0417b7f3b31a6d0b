"""Anthropic's `POST /v1/messages` and `/v1/messages/count_tokens`.

The lines are more than 300 because a dialect is read as a whole: its request, its answer and its events.
"""

from __future__ import annotations

import json
from typing import Any

from gateway.chat import conversation_of, ids
from gateway.dialects import (
    EFFORTS,
    Block,
    Blocks,
    NamedEvent,
    Step,
    Translation,
    answer,
    call_of,
    content_of,
    function_of,
    generation,
    moved,
    passed_over,
    stop_sequences,
    text_part,
    text_parts,
    translation,
)
from gateway.errors import ApiError
from gateway.fields import FieldError, Fields
from gateway.generation import Generation
from gateway.load import Pauses
from gateway.messages import MOST_MESSAGES, MOST_PARTS
from gateway.request import Request
from gateway.said import Call, Reasoning
from gateway.tools import MOST_TOOLS

TEXT = {"text": "text"}
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
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
SIGNATURE = "unsigned"
"""Clients send a thought back only if it has a signature; nothing is signed here."""
NO_EFFECT = (
    *("cache_control", "context_management", "diagnostics", "inference_geo", "service_tier", "speed"),
    *("user_profile_id", "workspace_id"),
)
NO_PREFILL = "the last message is the assistant's: this server writes a new message and continues none"
NO_THREADS = "thread_unsupported_request"
"""The code in the details of a refusal, after which the client sends the whole history (anthropic 2.14, 2026-11-27)."""
NOT_STORED = "this server stores no messages: send the whole conversation in `messages`"
AT_ONCE = 64
"""Messages that are translated before other requests have a turn."""


def anthropic_error(error: ApiError) -> dict[str, Any]:
    """Anthropic's shape."""
    kind = ERRORS.get(error.status, "invalid_request_error")
    details = {"error_code": NO_THREADS, "unsupported": ["thread"]}
    more = {"details": details} if error.code == NO_THREADS else {}
    return {"type": "error", "error": {"type": kind, "message": error.message} | more}


async def messages(request: Request) -> None:
    """The model's message is sent."""
    fields = request.fields()
    if fields.has("thread"):
        raise FieldError("thread", f"`thread`: {NOT_STORED}", NO_THREADS)
    chat = translation(request, fields)
    await _conversation(fields, chat, request.gateway.pauses)
    chat.body["max_completion_tokens"] = fields.whole("max_tokens", 1, 2**31 - 1)
    moved(fields, chat.body, temperature="temperature", top_p="top_p", top_k="top_k", stream="stream")
    stop_sequences(fields, chat)
    chat.names["max_completion_tokens"] = "max_tokens"
    metadata = fields.inner("metadata")
    moved(metadata, chat.body, user_id="user")
    chat.names["user"] = "metadata.user_id"
    metadata.close()
    fields.close()
    understood_chat = await generation(request, chat, cuts_answer=True)
    del metadata, fields, chat  # the body is not held while the model answers
    await answer(understood_chat, MessageWriter(understood_chat))


async def count_tokens(request: Request) -> None:
    """The tokens that the messages would have are counted; no model is asked. They cost the key their number."""
    fields = request.fields()
    chat = translation(request, fields)
    request.pay_for(request.size)
    await _conversation(fields, chat, request.gateway.pauses)
    fields.close()
    settings, _ = request.model(chat.body.pop("model"), "llm")
    chat.body.pop("response_format", None)
    body = Fields(chat.body)
    conversation = await chat.understood(conversation_of(body, settings, chat.prompter, request.gateway.pauses))
    tokens = await chat.understood(ids(request, settings, conversation))
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    await request.exchange.json({"input_tokens": len(tokens)})


async def _conversation(fields: Fields, chat: Translation, pauses: Pauses) -> None:
    """All that becomes part of the prompt, and the fields that change nothing."""
    if fields.has("system"):
        chat.message({"role": "system", "content": content_of(text_parts(fields, "system", TEXT))}, "system")
    listed = fields.items("messages", MOST_MESSAGES)
    for number, message in enumerate(listed, 1):
        _message(fields.within(message, f"messages[{number - 1}]"), chat)
        if number % AT_ONCE == 0:
            await pauses.pause()
    if chat.body["messages"][-1:] and chat.body["messages"][-1]["role"] == "assistant":
        raise FieldError("messages", f"`messages`: {NO_PREFILL}", "unsupported")
    _tools(fields, chat)
    _think(fields, chat)
    fields.only("container", because="this server has no containers")
    fields.only("mcp_servers", [], because="this server calls no other servers")
    passed_over(fields, *NO_EFFECT)


def _message(message: Fields, chat: Translation) -> None:
    role = message.text("role", choices=("user", "assistant", "system"))
    content = message.value("content")
    if isinstance(content, str):
        chat.message({"role": role, "content": content}, message.where)
    elif not isinstance(content, list) or not 1 <= len(content) <= MOST_PARTS:
        raise message.wrong("content", f"a text, or a list of 1 to {MOST_PARTS} blocks")
    else:
        blocks = [message.within(block, f"{message.path('content')}[{number}]") for number, block in enumerate(content)]
        (_assistant if role == "assistant" else _user)(blocks, role, message.where, chat)
    message.close()


def _user(blocks: list[Fields], role: str, where: str, chat: Translation) -> None:
    """Texts between the results of tools are messages of their own."""
    texts: list[str] = []

    def flush() -> None:
        if texts:
            chat.message({"role": role, "content": content_of(texts)}, where)
            texts.clear()

    for block in blocks:
        if (kind := block.text("type")) != "tool_result":
            texts.append(text_part(block, TEXT, kind))
            continue
        flush()
        identity = block.text("tool_use_id")
        content = content_of(text_parts(block, "content", TEXT)) if block.has("content") else ""
        chat.names[f"messages[{len(chat.body.get('messages', []))}].tool_call_id"] = block.path("tool_use_id")
        block.flag("is_error", False)  # the text says it
        passed_over(block, "cache_control")
        block.close()
        chat.message({"role": "tool", "tool_call_id": identity, "content": content}, block.where)
    flush()


def _assistant(blocks: list[Fields], role: str, where: str, chat: Translation) -> None:
    message: dict[str, Any] = {"role": role}
    texts, thoughts, calls = list[str](), list[str](), list[dict[str, Any]]()
    place = f"messages[{len(chat.body.get('messages', []))}]"
    for block in blocks:
        kind = block.text("type")
        if kind == "thinking":
            thoughts.append(block.text("thinking"))
        elif kind == "tool_use":
            name = block.text("name")
            arguments = block.value("input")
            if not isinstance(arguments, dict):
                raise block.wrong("input", "an object")
            chat.names[f"{place}.tool_calls[{len(calls)}]"] = block.where
            chat.names[f"{place}.tool_calls[{len(calls)}].function.arguments"] = block.path("input")
            calls.append(call_of(block.text("id"), name, json.dumps(arguments, ensure_ascii=False)))
        elif kind != "redacted_thinking":  # another server's secret
            texts.append(text_part(block, TEXT, kind))
    if calls:
        message["tool_calls"] = calls
    if thoughts and chat.reads("reasoning_content"):
        message["reasoning_content"] = "\n".join(thoughts)
    chat.message(message | {"content": content_of(texts)}, where)


def _tools(fields: Fields, chat: Translation) -> None:
    tools, choice = fields.value("tools"), fields.inner("tool_choice")
    if tools is not None and (not isinstance(tools, list) or len(tools) > MOST_TOOLS):
        raise fields.wrong("tools", f"a list of up to {MOST_TOOLS} tools")
    for number, tool in enumerate(tools or []):
        chat.body.setdefault("tools", []).append(_tool(fields.within(tool, f"tools[{number}]")))
        chat.names[f"tools[{number}].function"] = f"tools[{number}]"
        chat.names[f"tools[{number}].function.parameters"] = f"tools[{number}].input_schema"
    if choice.has("type"):
        kind = choice.text("type", choices=(*CHOICES, "tool"))
        named = {"type": "function", "function": {"name": choice.text("name")}} if kind == "tool" else CHOICES[kind]
        chat.body["tool_choice"] = named
        chat.body["parallel_tool_calls"] = not choice.flag("disable_parallel_tool_use", False)
    choice.close()


def _tool(tool: Fields) -> dict[str, Any]:
    if tool.text("type", "custom") != "custom":
        reason = "this server knows no tools of its own: describe the tool in `input_schema`"
        raise FieldError(tool.path("type"), f"`{tool.path('type')}`: {reason}", "unsupported")
    function = function_of(tool, "input_schema")
    tool.flag("strict", False)  # a call that is demanded keeps its schema; no other does
    passed_over(tool, "cache_control", "eager_input_streaming", "defer_loading", "input_examples", "allowed_callers")
    tool.close()
    return function


def _think(fields: Fields, chat: Translation) -> None:
    """Thinking is switched off if the client says so, and on unless a schema or a demanded call holds the answer."""
    thinking, output = fields.inner("thinking"), fields.inner("output_config")
    kind = thinking.text("type", "", choices=("", "enabled", "adaptive", "between_tools", "disabled"))
    thinking.whole("budget_tokens", 1, 2**31 - 1, 1024)  # the model ends its thought by itself
    passed_over(thinking, "display")
    thinking.close()
    effort = output.text("effort", "", choices=("", *EFFORTS))
    if output.has("format"):
        form = output.inner("format")
        form.text("type", choices=("json_schema",))
        schema = {"name": "output", "schema": form.value("schema")}
        chat.body["response_format"] = {"type": "json_schema", "json_schema": schema}
        chat.names["response_format.json_schema"] = "output_config.format"
        chat.names["response_format"] = "output_config.format"
        form.close()
    output.close()
    is_held = "response_format" in chat.body or chat.body.get("tool_choice", "auto") not in ("auto", "none")
    chat.think(effort, False if kind == "disabled" else True if kind and not is_held else None)


class MessageWriter:
    """A message: a block for each of thinking, text and calls."""

    ends_with_done = False

    def __init__(self, chat: Generation) -> None:
        self._chat = chat

    def begin(self) -> list[NamedEvent]:
        """The message without content; then the sign of life that Anthropic's server sends there."""
        message = self._message([], None)
        return [_event("message_start", message=message), _event("ping")]

    def step(self, step: Step) -> list[NamedEvent]:
        """A block's beginning, what is added to it, and its end."""
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
        """Why it ended, the usage, and the stop."""
        delta = {"stop_reason": self._stop(blocks, finish), "stop_sequence": None}
        return [_event("message_delta", delta=delta, usage=self._usage()), _event("message_stop")]

    def failure(self, error: ApiError) -> NamedEvent:
        """The error as it is answered without a stream."""
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
        """Tokens of a cached prefix are counted apart from the rest of the prompt."""
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
