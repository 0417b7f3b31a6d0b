"""Anthropic's `POST /v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from gateway.anthropic_answer import NO_THREADS, MessageWriter
from gateway.dialects import (
    EFFORTS,
    TEXT_ONLY,
    Translation,
    answer,
    call_of,
    close,
    content_of,
    function_of,
    generation,
    moved,
    passed_over,
    stop_sequences,
    text_part,
    text_parts,
    token_count,
    translation,
)
from gateway.fields import FieldError, Fields
from gateway.load import Pauses
from gateway.messages import MOST_MESSAGES, content_in
from gateway.request import Request

TEXT = {"text": "text"}
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
OTHERS_TOOLS = ("_tool_use", "_tool_result")
"""Suffixes of block types that report tools run by a server, such as `server_tool_use`."""
NO_TOOLS = "this server runs no tools, and cannot read calls and results of such tools: leave the block out"
NO_EFFECT = (
    *("cache_control", "context_management", "diagnostics", "inference_geo", "service_tier", "speed"),
    *("user_profile_id", "workspace_id"),
)
NO_PREFILL = "the last message is the assistant's: this server writes new messages, and cannot continue one"
NOT_STORED = "this server stores no messages: send the whole conversation in `messages`"


async def messages(request: Request) -> None:
    """Sends the model's message."""
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
    close(fields, chat)
    understood_chat = await generation(request, chat, cuts_answer=True)
    del metadata, fields, chat  # frees the body while the model answers
    await answer(understood_chat, MessageWriter(understood_chat))


async def count_tokens(request: Request) -> None:
    """Answers the number of tokens of the messages without asking a model. The tokens are charged to the key."""
    fields = request.fields()
    chat = translation(request, fields)
    request.pay_for(request.size)
    await _conversation(fields, chat, request.gateway.pauses)
    fields.close()
    await request.exchange.json({"input_tokens": await token_count(request, chat)})


async def _conversation(fields: Fields, chat: Translation, pauses: Pauses) -> None:
    """Reads everything that becomes part of the prompt, and the fields that change nothing."""
    if fields.has("system"):
        chat.message({"role": "system", "content": content_of(text_parts(fields, "system", TEXT))}, "system")
    await pauses.read_all(fields.objects("messages", MOST_MESSAGES), partial(_message, chat=chat))
    if chat.body["messages"][-1:] and chat.body["messages"][-1]["role"] == "assistant":
        raise FieldError("messages", f"`messages`: {NO_PREFILL}", "unsupported")
    _tools(fields, chat)
    _think(fields, chat)
    fields.only("container", because="this server has no containers")
    fields.only("mcp_servers", [], because="this server calls no other servers")
    passed_over(fields, *NO_EFFECT)


def _message(message: Fields, chat: Translation) -> None:
    role = message.text("role", choices=("user", "assistant", "system"))
    content = content_in(message, "content", least=1)
    if isinstance(content, str):
        chat.message({"role": role, "content": content}, message.where)
    else:
        (_assistant if role == "assistant" else _user)(content, role, message.where, chat)
    message.close()


def _user(blocks: Iterable[Fields], role: str, where: str, chat: Translation) -> None:
    """Reads a user's message; texts between tool results become messages of their own."""
    texts: list[str] = []

    def flush() -> None:
        if texts:
            chat.message({"role": role, "content": content_of(texts)}, where)
            texts.clear()

    for block in blocks:
        if (kind := block.text("type")) != "tool_result":
            texts.append(_text(block, kind))
            continue
        flush()
        identity = block.text("tool_use_id")
        content = content_of(text_parts(block, "content", TEXT, _text)) if block.has("content") else ""
        chat.names[f"messages[{len(chat.body.get('messages', []))}].tool_call_id"] = block.path("tool_use_id")
        block.flag("is_error", False)  # the text of the result reports the error
        passed_over(block, "cache_control")
        block.close()
        chat.message({"role": "tool", "tool_call_id": identity, "content": content}, block.where)
    flush()


def _text(block: Fields, kind: str) -> str:
    """The text of a block. Of a document or a search result it begins with the title."""
    if kind == "document":
        source = block.inner("source")
        form = source.text("type", choices=("text", "content", "base64", "url", "file"))
        if form not in ("text", "content"):
            raise FieldError(source.path("type"), f"`{source.path('type')}`: {TEXT_ONLY}", "unsupported")
        texts = [source.text("data")] if form == "text" else text_parts(source, "content", TEXT)
    elif kind == "search_result":
        texts = text_parts(block, "content", TEXT)
    else:
        return text_part(block, TEXT, kind)
    reason = "citations are not supported: ask for quotations in the message"
    block.inner("citations").only("enabled", False, because=reason)
    heads = [block.text(name, "") for name in ("title", "context" if kind == "document" else "source")]
    return "\n".join(filter(None, [*heads, *texts]))


def _assistant(blocks: Iterable[Fields], role: str, where: str, chat: Translation) -> None:
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
        elif kind.endswith(OTHERS_TOOLS):
            raise FieldError(block.path("type"), f"`{block.path('type')}`: {NO_TOOLS}", "unsupported")
        elif kind != "redacted_thinking":  # encrypted by another server, and unreadable here
            texts.append(text_part(block, TEXT, kind))
    if calls:
        message["tool_calls"] = calls
    if thoughts and chat.reads("reasoning_content"):
        message["reasoning_content"] = "\n".join(thoughts)
    chat.message(message | {"content": content_of(texts)}, where)


def _tools(fields: Fields, chat: Translation) -> None:
    chat.tools(fields, _tool, "input_schema")
    choice = fields.inner("tool_choice")
    if choice.has("type"):
        kind = choice.text("type", choices=(*CHOICES, "tool"))
        named = {"type": "function", "function": {"name": choice.text("name")}} if kind == "tool" else CHOICES[kind]
        chat.body["tool_choice"] = named
        chat.body["parallel_tool_calls"] = not choice.flag("disable_parallel_tool_use", False)
    choice.close()


def _tool(tool: Fields) -> dict[str, Any]:
    if tool.text("type", "custom") != "custom":
        reason = "this server has no built-in tools: describe the tool in `input_schema`"
        raise FieldError(tool.path("type"), f"`{tool.path('type')}`: {reason}", "unsupported")
    function = function_of(tool, "input_schema")
    tool.flag("strict", False)  # only a required call is held to its schema, with or without this flag
    passed_over(tool, "cache_control", "eager_input_streaming", "defer_loading", "input_examples", "allowed_callers")
    tool.close()
    return function


def _think(fields: Fields, chat: Translation) -> None:
    """Sets thinking: off if the client turns it off, or a schema or a forced call limits the answer; otherwise on."""
    thinking, output = fields.inner("thinking"), fields.inner("output_config")
    kind = thinking.text("type", "", choices=("", "enabled", "adaptive", "between_tools", "disabled"))
    # Accepted without effect: the length of the reasoning cannot be limited.
    thinking.whole("budget_tokens", 1, 2**31 - 1, 1024)
    passed_over(thinking, "display")
    thinking.close()
    effort = output.text("effort", "", choices=("", *EFFORTS))
    section, name = (fields, "output_format") if fields.has("output_format") else (output, "format")  # older, newer
    if section.has(name):
        form = section.inner(name)
        form.text("type", choices=("json_schema",))
        schema = {"name": "output", "schema": form.value("schema")}
        chat.body["response_format"] = {"type": "json_schema", "json_schema": schema}
        chat.names |= {"response_format.json_schema": form.where, "response_format": form.where}
        form.close()
    output.close()
    is_held = "response_format" in chat.body or chat.body.get("tool_choice", "auto") not in ("auto", "none")
    chat.think(effort, False if kind == "disabled" else True if kind and not is_held else None)
