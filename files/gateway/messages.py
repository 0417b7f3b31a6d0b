"""The `messages` of a chat, checked and brought into the form that templates read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gateway.calls import MOST_CHARACTERS, value_of
from gateway.fields import FieldError, Fields
from gateway.load import Pauses
from gateway.tools import MOST_TOOLS, NO_PARSER

ROLES = ("system", "developer", "user", "assistant", "tool")
MOST_MESSAGES = 4096
MOST_PARTS = 1024
AT_ONCE = 64
"""Messages; 36 us each (2026-11-25, two cores of an unnamed x86-64 VM)."""
MOST_BRACKETS = 65_536
MOST_INDEX = 2**31 - 1


async def messages_of(fields: Fields, template: str, has_tools: bool, pauses: Pauses) -> list[dict[str, Any]]:
    """The messages as templates read them: a role, a text, and calls of tools with their arguments as an object.

    `developer` is `system` to a template that does not know it. Fields that the template does not read are refused, and
    with them calls and their results unless `has_tools`: a parser of the model's calls is known. Of many messages
    `AT_ONCE` are read at once, and others have turns between.
    """
    given = fields.items("messages", MOST_MESSAGES)
    called = _Called()
    reads = _Reads(template, has_tools and "tool_calls" in template)
    messages = []
    for number, message in enumerate(given, 1):
        messages.append(_message(Fields(message, f"messages[{number - 1}]"), reads, called))
        if number % AT_ONCE == 0:
            await pauses.pause()
    return messages


@dataclass
class _Called:
    """The ids of the calls so far, and how many brackets their arguments have."""

    identities: set[str] = field(default_factory=set)
    brackets: int = 0


@dataclass(frozen=True)
class _Reads:
    """What a template does with messages."""

    template: str
    has_tools: bool

    def field(self, name: str) -> bool:
        return reads_field(self.template, name)


def reads_field(template: str, name: str) -> bool:
    """True if the template reads this field of messages."""
    return bool(re.search(rf"message(\.|\[['\"]){name}\b", template))


def _message(fields: Fields, reads: _Reads, called: _Called) -> dict[str, Any]:
    role = fields.text("role")
    if role == "function" or (role == "tool" and not reads.has_tools):
        raise FieldError(fields.path("role"), f"`{fields.path('role')}`: {NO_PARSER}", "unsupported")
    if role not in ROLES:
        raise fields.wrong("role", f"one of {', '.join(ROLES)}")
    found: dict[str, Any] = {"role": "system" if role == "developer" and "developer" not in reads.template else role}
    calls = _calls(fields, called) if role == "assistant" and reads.has_tools and fields.has("tool_calls") else []
    fields.only("tool_calls", [], because=NO_PARSER)
    fields.only("function_call", because=NO_PARSER)
    fields.only("audio", because="this model reads text only")
    fields.only("refusal", because="a refusal of another model is not read")
    fields.only("annotations", [], because="a text's annotations are not read")
    found["content"] = "" if calls and not fields.has("content") else _content(fields)
    if calls:
        found["tool_calls"] = calls
    if role == "tool":
        found["tool_call_id"] = fields.text("tool_call_id")
        if found["tool_call_id"] not in called.identities:
            raise fields.wrong("tool_call_id", "the id of a call in a message before it")
        found |= {"name": fields.text("name")} if fields.has("name") else {}
    for name in ("name", "reasoning_content"):
        if fields.has(name):
            if not reads.field(name):
                reason = "this model's template does not read it"
                raise FieldError(fields.path(name), f"`{fields.path(name)}`: {reason}", "unsupported")
            found[name] = fields.text(name)
    fields.close()
    return found


def _calls(fields: Fields, called: _Called) -> list[dict[str, Any]]:
    """The calls of an assistant's message; their ids are known from here on."""
    given = fields.value("tool_calls")
    if not isinstance(given, list) or len(given) > MOST_TOOLS:
        raise fields.wrong("tool_calls", f"a list of up to {MOST_TOOLS} calls")
    return [_call(Fields(one, f"{fields.path('tool_calls')}[{number}]"), called) for number, one in enumerate(given)]


def _call(fields: Fields, called: _Called) -> dict[str, Any]:
    identity = fields.text("id")
    fields.text("type", "function", choices=("function",))
    fields.whole("index", 0, MOST_INDEX, 0)  # of a stream's pieces; some clients send it back
    function = fields.inner("function")
    name, text = function.text("name"), function.text("arguments", "{}") or "{}"
    called.brackets += text.count("[") + text.count("{")
    arguments = value_of(text) if called.brackets <= MOST_BRACKETS else None
    if not isinstance(arguments, dict):
        wanted = f"the JSON text of an object, of up to {MOST_CHARACTERS} characters; all calls together may have "
        raise function.wrong("arguments", f"{wanted}{MOST_BRACKETS} brackets")
    function.close()
    fields.close()
    called.identities.add(identity)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _content(fields: Fields) -> str:
    if not fields.has("content"):
        raise FieldError(fields.path("content"), f"`{fields.path('content')}` is missing", "missing_required_parameter")
    given = fields.value("content")
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_PARTS:
        raise fields.wrong("content", f"a text, or a list of 1 to {MOST_PARTS} parts")
    return "\n".join(_part(Fields(one, f"{fields.path('content')}[{number}]")) for number, one in enumerate(given))


def _part(fields: Fields) -> str:
    kind = fields.text("type")
    if kind != "text":
        raise FieldError(fields.path("type"), f"`{fields.path('type')}`: this model reads text only", "unsupported")
    text = fields.text("text")
    fields.close()
    return text
