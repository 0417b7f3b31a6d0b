"""Cohere's `POST /v1/chat`, the older form: a message beside its history, calls without ids, lines of JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from gateway.answer_parts import Call, Content
from gateway.cohere_chat import FINISHES, answer_format, refuse_unsupported, sampling_fields
from gateway.dialects import (
    Blocks,
    NamedEvent,
    Step,
    Translation,
    answer,
    call_of,
    close,
    generation,
    passed_over,
    translation,
)
from gateway.errors import ApiError
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.generation import Generation
from gateway.messages import MOST_MESSAGES
from gateway.request import Request
from gateway.tools import MOST_TOOLS

CallKey = tuple[str, str]
"""A call's name and its parameters as JSON, which replace an id."""
ROLES = {"USER": "user", "CHATBOT": "assistant", "SYSTEM": "system"}
TYPES = {
    "str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "dict": "object", "object": "object",
}  # fmt: skip
"""JSON types by the names that clients send: Python's and JSON's own."""
LIST_OF = re.compile(r"(?:typing\.)?(?:list|sequence)\[(\w+)\]", re.IGNORECASE)
MOST_PARAMETERS = 256
NOT_STORED = "this server stores no conversations: send the earlier messages in `chat_history`"


async def chat(request: Request) -> None:
    """Sends the model's message."""
    fields = request.fields()
    chat = translation(request, fields)
    history = await _history(fields, chat, request)
    sampling_fields(fields, chat)
    chat.tools(fields, _tool, "parameter_definitions")
    answer_format(fields.inner("response_format"), chat)
    fields.flag("force_single_step", False)  # without effect: the client's next request decides
    fields.only("conversation_id", because=NOT_STORED)
    fields.only("connectors", [], because="this server calls no other servers")
    fields.only("search_queries_only", False, because="the model cannot search")
    fields.only("prompt_truncation", "OFF", because="messages of a prompt that is too long cannot be left out")
    fields.only("return_prompt", False, because="the prompt is not sent back")
    fields.only("max_input_tokens", because="a prompt is read whole, or refused")
    fields.ignore("citation_quality", "off", because="citations are not supported")
    refuse_unsupported(fields)
    close(fields, chat)
    understood_chat = await generation(request, chat)
    request.hold_answer(len(compact(history)))  # the history is in memory until the answer ends
    del fields, chat
    await answer(understood_chat, ChatWriter(understood_chat, history))


async def _history(fields: Fields, chat: Translation, request: Request) -> list[dict[str, Any]]:
    """Adds the conversation to the chat, and returns it as `chat_history` for the answer."""
    turns = _Turns(chat)
    if preamble := fields.text("preamble", ""):
        chat.message({"role": "system", "content": preamble}, "preamble")
    history = fields.items("chat_history", MOST_MESSAGES, least=0)
    await request.gateway.pauses.read_all(fields.elements("chat_history", history), turns.read)
    text = fields.text("message")
    results = fields.items("tool_results", MOST_TOOLS, least=0)
    if not text and not results:
        raise fields.wrong("message", "a text with at least one character, unless `tool_results` has results")
    if text:
        turns.open_calls = {}
        chat.message({"role": "user", "content": text}, "message")
    turns.read_results(fields, results)
    user = [{"role": "USER", "message": text}] if text else []
    return [*history, *user, *([{"role": "TOOL", "tool_results": results}] if results else [])]


class _Turns:
    """Messages of the history. Calls have no ids in this dialect: a result belongs to the open call that it repeats."""

    def __init__(self, chat: Translation) -> None:
        self._chat = chat
        self._count = 0
        self.open_calls: dict[CallKey, list[str]] = {}
        """The ids of the calls that the next results may answer."""

    def read(self, message: Fields) -> None:
        """Adds a message of the history."""
        role = message.text("role", choices=(*ROLES, "TOOL"))
        if role == "TOOL":
            self.read_results(message, message.items("tool_results", MOST_TOOLS))
        else:
            body: dict[str, Any] = {"role": ROLES[role], "content": message.text("message", "")}
            self.open_calls = {}
            calls = message.objects("tool_calls", MOST_TOOLS, least=0) if role == "CHATBOT" else ()
            if called := [self._call(call, number) for number, call in enumerate(calls)]:
                body["tool_calls"] = called
            self._chat.message(body, message.where)
        passed_over(message, "citations", "documents", "generation_id", "response_id")
        message.close()

    def read_results(self, fields: Fields, results: list[Any]) -> None:
        """Reads results of calls. Results without an open call follow an added assistant's message with these calls."""
        where = fields.path("tool_results")
        read = [_result(result) for result in fields.elements("tool_results", results)]
        new_calls = [key for key, _, _ in read if key not in self.open_calls]
        if new_calls and self.open_calls:
            reason = "each result must repeat a call, with its parameters, of the preceding message"
            raise FieldError(where, f"`{where}`: {reason}", "invalid_value")
        if new_calls:
            body = {"role": "assistant", "content": "", "tool_calls": [self._added(key) for key in new_calls]}
            self._chat.message(body, where)
        for key, outputs, path in read:
            identities = self.open_calls[key]
            identity = identities.pop(0) if len(identities) > 1 else identities[0]
            self._chat.message({"role": "tool", "tool_call_id": identity, "content": compact(outputs)}, path)
        if read:
            self.open_calls = {}

    def _call(self, call: Fields, number: int) -> dict[str, Any]:
        place = f"messages[{len(self._chat.body.get('messages', []))}].tool_calls[{number}]"
        self._chat.names[place] = call.where
        self._chat.names[f"{place}.function.arguments"] = call.path("parameters")
        return self._added(_call_key(call))

    def _added(self, key: CallKey) -> dict[str, Any]:
        identity = f"call_{self._count}"
        self._count += 1
        self.open_calls.setdefault(key, []).append(identity)
        return call_of(identity, *key)


def _call_key(call: Fields) -> CallKey:
    name, parameters = call.text("name"), call.value("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise call.wrong("parameters", "an object")
    passed_over(call, "generation_id")
    call.close()
    return name, json.dumps(parameters or {}, ensure_ascii=False, sort_keys=True)


def _result(result: Fields) -> tuple[CallKey, list[Any], str]:
    """The key of the called tool, its outputs, and the result's path in the request."""
    key = _call_key(result.inner("call"))
    outputs = result.items("outputs", MOST_TOOLS, least=0)
    result.close()
    return key, outputs, result.where


def _tool(tool: Fields) -> dict[str, Any]:
    """A tool in a chat's form: the parameters' types become a JSON schema."""
    function: dict[str, Any] = {"name": tool.text("name"), "description": tool.text("description", "")}
    definitions = tool.value("parameter_definitions") or {}
    if not isinstance(definitions, dict) or len(definitions) > MOST_PARAMETERS:
        raise tool.wrong("parameter_definitions", f"an object of up to {MOST_PARAMETERS} parameters")
    properties, required = {}, []
    for name, definition in definitions.items():
        fields = tool.within(definition, f"{tool.path('parameter_definitions')}.{name}")
        schema = _schema(fields.text("type"))
        properties[name] = schema | ({"description": text} if (text := fields.text("description", "")) else {})
        if fields.flag("required", False):
            required.append(name)
        fields.close()
    tool.close()
    function["parameters"] = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": function}


def _schema(kind: str) -> dict[str, Any]:
    """The JSON schema of a Python type's name; without one, any value is allowed."""
    if match := LIST_OF.fullmatch(kind):
        return {"type": "array", "items": _schema(match[1])}
    word = TYPES.get(kind.strip().lower())
    return {"type": word} if word else {}


class ChatWriter:
    """A response of one text and its calls; this dialect has no place for reasoning."""

    ends_with_done = False

    def __init__(self, chat: Generation, history: list[dict[str, Any]]) -> None:
        self._chat, self._history = chat, history
        self._identity = chat.request.exchange.identity
        self._calls: list[int] = []
        """Numbers of the blocks that are calls."""
        chat.request.exchange.is_lines = True

    def begin(self) -> list[NamedEvent]:
        return [self._event("stream-start", generation_id=self._identity)]

    def step(self, step: Step) -> list[NamedEvent]:
        """The events of a piece of text, or of a tool call."""
        kind, block, text = step
        if block.kind is Content and kind == "add":
            return [self._event("text-generation", text=text)]
        if block.kind is not Call or kind == "end":
            return []
        if kind == "begin":
            self._calls.append(block.number)
        delta = {"index": self._calls.index(block.number)} | (
            {"name": block.name} if kind == "begin" else {"parameters": text}
        )
        return [self._event("tool-calls-chunk", tool_call_delta=delta)]

    def end(self, blocks: Blocks, finish: str) -> list[NamedEvent]:
        """The last events: all tool calls, and the whole response."""
        response = self.whole(blocks, finish)
        calls = response.get("tool_calls")
        called = [self._event("tool-calls-generation", text=response["text"], tool_calls=calls)] if calls else []
        reason = response["finish_reason"]
        return [*called, self._event("stream-end", is_finished=True, finish_reason=reason, response=response)]

    def failure(self, error: ApiError) -> NamedEvent:
        """The stream's end, with the error."""
        response = {"text": "", "generation_id": self._identity, "finish_reason": "ERROR", "error": error.message}
        return self._event("stream-end", is_finished=True, finish_reason="ERROR", response=response)

    def whole(self, blocks: Blocks, finish: str) -> dict[str, Any]:
        """The response, which repeats the conversation up to its own message."""
        text = "".join(block.text for block in blocks.blocks if block.kind is Content)
        calls = [{"name": block.name, "parameters": block.arguments} for block in blocks.blocks if block.kind is Call]
        called = {"tool_calls": calls} if calls else {}
        usage = self._chat.usage()
        counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
        return {
            "response_id": self._identity,
            "generation_id": self._identity,
            "text": text,
            "chat_history": [*self._history, {"role": "CHATBOT", "message": text, **called}],
            "finish_reason": FINISHES[finish],
            "meta": {"api_version": {"version": "1"}, "billed_units": counts, "tokens": counts},
            **called,
        }

    def _event(self, kind: str, is_finished: bool = False, **fields: Any) -> NamedEvent:
        return kind, {"is_finished": is_finished, "event_type": kind, **fields}
