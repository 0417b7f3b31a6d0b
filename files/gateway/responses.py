"""`POST /v1/responses`: OpenAI's newer dialect, without storage. Every request has its whole conversation."""

from __future__ import annotations

from typing import Any

from gateway.dialects import (
    EFFORTS,
    Translation,
    answer,
    call_of,
    close,
    content_of,
    function_of,
    generation,
    moved,
    passed_over,
    text_parts,
    token_count,
    translation,
)
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.load import Pauses
from gateway.messages import MOST_MESSAGES
from gateway.request import Request
from gateway.responses_answer import ResponseWriter, echo_of, unsealed
from gateway.tools import MOST_TOOLS, refuse_custom
from gateway.unsupported import NO_LOGPROBS

NOT_STORED = "this server stores no responses: send the whole conversation in `input`, as clients do with `store` false"
OTHER_ITEM = "this server accepts messages, function calls, their outputs, and reasoning"
OTHER_TOOL = "this server runs no tools: only tools of type function are supported"
LOGPROBS, SEALED = "message.output_text.logprobs", "reasoning.encrypted_content"
TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
SUMMARIES = {"summary_text": "text"}
THOUGHTS = {"reasoning_text": "text"}
MOST_METADATA, MOST_METADATUM = 16, 512
"""Entries, and characters of a key or a value, as OpenAI's reference has them (2026-11-26)."""


async def responses(request: Request) -> None:
    """Sends the model's response."""
    body: Any = request.body
    fields = request.fields()
    chat = translation(request, fields)
    echo = echo_of(body) | {"metadata": _metadata(fields)}
    seals = await _read(fields, chat, request.gateway.pauses)
    understood_chat = await generation(request, chat)
    request.hold_answer(len(compact(echo)))  # the repeated fields are in memory until the answer ends
    del body, fields, chat
    await answer(understood_chat, ResponseWriter(understood_chat, echo, seals))


async def input_tokens(request: Request) -> None:
    """Answers the number of tokens of a response's input without asking a model. The tokens are charged to the key."""
    fields = request.fields()
    chat = translation(request, fields)
    request.pay_for(request.size)
    _metadata(fields)
    await _read(fields, chat, request.gateway.pauses)
    count = await token_count(request, chat)
    await request.exchange.json({"object": "response.input_tokens", "input_tokens": count})


async def _read(fields: Fields, chat: Translation, pauses: Pauses) -> bool:
    """Reads the conversation and all options. True if reasoning has to be sealed."""
    if fields.has("instructions"):
        chat.message({"role": "system", "content": fields.text("instructions")}, "instructions")
    await _Items(chat).read(fields, pauses)
    seals = _options(fields, chat)
    close(fields, chat)
    return seals


def _metadata(fields: Fields) -> dict[str, str]:
    metadata = fields.value("metadata")
    is_right = isinstance(metadata, dict) and len(metadata) <= MOST_METADATA
    if metadata is not None and not (is_right and all(map(_is_metadatum, metadata.keys(), metadata.values()))):
        raise fields.wrong("metadata", f"an object of up to {MOST_METADATA} texts of {MOST_METADATUM} characters")
    return metadata or {}


def _is_metadatum(key: object, value: object) -> bool:
    return isinstance(value, str) and max(len(str(key)), len(value)) <= MOST_METADATUM


class _Items:
    """The items of `input` as messages. An assistant's reasoning, text and calls become one message."""

    def __init__(self, chat: Translation) -> None:
        self._chat = chat
        self._draft: dict[str, Any] = {}
        self._path = ""
        """The path of the draft's first item."""

    async def read(self, fields: Fields, pauses: Pauses) -> None:
        """Adds the input, a text or a list of items, to the chat."""
        value, self._chat.names["messages"] = fields.value("input"), "input"
        if isinstance(value, str):
            return self._chat.message({"role": "user", "content": value}, "input")
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_MESSAGES:
            raise fields.wrong("input", f"a text, or a list of 1 to {MOST_MESSAGES} items")
        await pauses.read_all(fields.elements("input", value), self._item)
        self._flush()
        return None

    def _item(self, item: Fields) -> None:
        kind = item.text("type", "message")
        readers = {
            "message": self._message,
            "function_call": self._call,
            "function_call_output": self._output,
            "reasoning": self._reasoning,
        }
        if kind == "item_reference":
            raise FieldError(item.path("type"), f"`{item.path('type')}`: {NOT_STORED}", "unsupported")
        refuse_custom(item, kind)
        if kind not in readers:
            raise FieldError(item.path("type"), f"`{item.path('type')}`: {OTHER_ITEM}", "unsupported")
        passed_over(item, "id", "status", "phase")
        readers[kind](item)
        item.close()

    def _message(self, item: Fields) -> None:
        role = item.text("role", choices=("system", "developer", "user", "assistant"))
        content = content_of(text_parts(item, "content", TEXTS))
        if role != "assistant":
            self._flush()
            return self._chat.message({"role": role, "content": content}, item.where)
        self._assistant(item, "content", "tool_calls")["content"] = content
        return None

    def _call(self, item: Fields) -> None:
        passed_over(item, "namespace", "caller", "async")
        draft = self._assistant(item)
        call = call_of(item.text("call_id"), item.text("name"), item.text("arguments"))
        calls = draft.setdefault("tool_calls", [])
        self._chat.names[f"{self._next}.tool_calls[{len(calls)}]"] = item.where
        self._chat.names[f"{self._next}.tool_calls[{len(calls)}].function"] = item.where
        calls.append(call)

    def _output(self, item: Fields) -> None:
        self._flush()
        passed_over(item, "caller", "created_by")
        identity, content = item.text("call_id"), content_of(text_parts(item, "output", TEXTS))
        self._chat.names[f"{self._next}.tool_call_id"] = item.path("call_id")
        self._chat.message({"role": "tool", "tool_call_id": identity, "content": content}, item.where)

    def _reasoning(self, item: Fields) -> None:
        seal = item.value("encrypted_content")
        texts = text_parts(item, "content", THOUGHTS) if item.has("content") else []
        summaries = text_parts(item, "summary", SUMMARIES) if item.has("summary") else []
        if (text := "\n".join(texts or summaries) or unsealed(seal)) and self._chat.reads("reasoning_content"):
            self._assistant(item, "reasoning_content", "content", "tool_calls")["reasoning_content"] = text

    @property
    def _next(self) -> str:
        return f"messages[{len(self._chat.body.get('messages', []))}]"

    def _assistant(self, item: Fields, *before: str) -> dict[str, Any]:
        """The assistant's message for the item: a new one if the current one already has a later field."""
        if any(name in self._draft for name in before):
            self._flush()
        if not self._draft:
            self._draft, self._path = {"role": "assistant"}, item.where
        return self._draft

    def _flush(self) -> None:
        if self._draft:
            draft, self._draft = self._draft, {}
            is_empty = "content" not in draft and "tool_calls" not in draft
            self._chat.message(draft | ({"content": ""} if is_empty else {}), self._path)


def _options(fields: Fields, chat: Translation) -> bool:
    """Reads sampling, tools and format: everything besides the conversation. True if reasoning has to be sealed."""
    moved(fields, chat.body, temperature="temperature", top_p="top_p", stream="stream", user="user")
    moved(fields, chat.body, max_output_tokens="max_completion_tokens", parallel_tool_calls="parallel_tool_calls")
    moved(fields, chat.body, safety_identifier="safety_identifier", prompt_cache_key="prompt_cache_key")
    chat.names |= {"max_completion_tokens": "max_output_tokens", "response_format": "text.format"}
    _tools(fields, chat)
    _format(fields.inner("text"), chat)
    _reason(fields.inner("reasoning"), chat)
    for name in ("previous_response_id", "conversation"):
        fields.only(name, because=NOT_STORED)
    fields.only("prompt", because="this server stores no prompts: send the text in `instructions` and `input`")
    fields.only("background", False, because="this server stores no responses, so nobody could fetch this one later")
    fields.flag("store", False)
    fields.ignore("truncation", "disabled", because="items of an input that is too long cannot be left out")
    fields.only("top_logprobs", 0, because=NO_LOGPROBS)
    included = fields.texts("include", MOST_TOOLS, least=0)
    if LOGPROBS in included:
        raise FieldError("include", f"`include`: {NO_LOGPROBS}", "unsupported")
    options = fields.inner("stream_options")
    options.ignore("include_obfuscation", False, because="padding of events is not supported")
    options.close()
    passed_over(fields, "service_tier", "prompt_cache_retention", "prompt_cache_options", "max_tool_calls")
    return SEALED in included


def _tools(fields: Fields, chat: Translation) -> None:
    offered = [_tool(tool) for tool in fields.objects("tools", MOST_TOOLS, least=0)]
    choice = fields.value("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        choice, names = _allowed(fields.within(choice, "tool_choice"))
        offered = [tool for tool in offered if tool["function"]["name"] in names]
    elif isinstance(choice, dict):
        named = fields.within(choice, "tool_choice")
        kind = named.text("type")
        refuse_custom(named, kind)
        if kind != "function":
            raise FieldError("tool_choice.type", f"`tool_choice.type`: {OTHER_TOOL}", "unsupported")
        choice = {"type": "function", "function": {"name": named.text("name")}}
        named.close()
    chat.body |= {"tools": offered} if offered else {}
    chat.body |= {} if choice is None else {"tool_choice": choice}
    chat.names |= {f"tools[{number}].function": f"tools[{number}]" for number in range(len(offered))}


def _tool(tool: Fields) -> dict[str, Any]:
    kind = tool.text("type")
    refuse_custom(tool, kind)
    if kind != "function":
        raise FieldError(tool.path("type"), f"`{tool.path('type')}`: {OTHER_TOOL}", "unsupported")
    function = function_of(tool, "parameters")
    tool.flag("strict", False)  # only a required call is held to its schema, with or without this flag
    passed_over(tool, "defer_loading", "allowed_callers", "async", "output_schema")
    tool.close()
    return function


def _allowed(choice: Fields) -> tuple[str, set[str]]:
    """The choice among the allowed tools, and their names."""
    choice.text("type")
    mode = choice.text("mode", choices=("auto", "required"))
    names = set()
    for named in choice.objects("tools", MOST_TOOLS):
        named.text("type", choices=("function",))
        names.add(named.text("name"))
        named.close()
    choice.close()
    return mode, names


def _format(text: Fields, chat: Translation) -> None:
    passed_over(text, "verbosity")
    if text.has("format"):
        form = text.inner("format")
        kind = form.text("type", choices=("text", "json_object", "json_schema"))
        if kind == "json_schema":
            schema: dict[str, Any] = {}
            moved(form, schema, name="name", description="description", schema="schema", strict="strict")
            chat.body["response_format"] = {"type": kind, "json_schema": schema}
            chat.names["response_format.json_schema"] = "text.format"
        elif kind == "json_object":
            chat.body["response_format"] = {"type": kind}
        form.close()
    text.close()


def _reason(reasoning: Fields, chat: Translation) -> None:
    effort = reasoning.text("effort", "", choices=("", *EFFORTS))
    chat.think(effort, False if effort == "none" else None)
    # Accepted without effect: the reasoning is sent whole, without a summary.
    for name in ("summary", "generate_summary"):
        reasoning.text(name, "", choices=("", "auto", "concise", "detailed"))
    reasoning.close()
