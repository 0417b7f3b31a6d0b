"""The `messages` of a chat, validated and converted to the form that templates read."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.calls import MOST_CHARACTERS, value_of
from gateway.fields import FieldError, Fields
from gateway.load import Pauses
from gateway.tools import LEGACY, MOST_TOOLS

ROLES = ("system", "developer", "user", "assistant", "tool")
MOST_MESSAGES = 4096
MOST_PARTS = 1024
MOST_BRACKETS = 65_536
MOST_INDEX = 2**31 - 1
TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of parts with text, and the field with the text."""
UNREAD = "this model's template does not read it"


async def messages_of(fields: Fields, template: str, pauses: Pauses) -> list[dict[str, Any]]:
    """The messages in the templates' form: a role, a text, and calls of tools with their arguments as an object.

    `developer` becomes `system` for a template without it. Fields that the template does not read are ignored, because
    clients send the previous answer back whole.
    """
    called, reads, messages = _Called(), _Reads(template), list[dict[str, Any]]()
    listed = fields.objects("messages", MOST_MESSAGES)
    await pauses.read_all(listed, lambda message: messages.append(_message(message, reads, called)))
    return messages


@dataclass
class _Called:
    """The ids of the calls so far, and the number of brackets in their arguments."""

    identities: set[str] = field(default_factory=set)
    brackets: int = 0


@dataclass(frozen=True)
class _Reads:
    """Fields of messages that a template reads."""

    template: str

    def field(self, name: str) -> bool:
        return reads_field(self.template, name)


@functools.lru_cache(maxsize=256)
def reads_field(template: str, name: str) -> bool:
    """True if the template reads this field of a message.

    Tools and functions have a `name` too, so it counts only at variables that are messages.
    """
    owner = ""
    if name == "name":
        loops = re.findall(r"for\s+(\w+)\s+in\s+[^%]*messages|set\s+(\w+)\s*=\s*[^%]*messages", template)
        owner = rf"\b(?:{'|'.join({'message', *(word for pair in loops for word in pair if word)})})\s*"
    access = rf"(?:\.\s*{name}\b|\[\s*['\"]{name}['\"]|\.\s*get\(\s*['\"]{name}['\"])"
    return bool(re.search(owner + access, template))


def _message(fields: Fields, reads: _Reads, called: _Called) -> dict[str, Any]:
    role = fields.text("role")
    if role == "function":
        raise FieldError(fields.path("role"), f"`{fields.path('role')}`: {LEGACY}", "unsupported")
    if role not in ROLES:
        raise fields.wrong("role", f"one of {', '.join(ROLES)}")
    message: dict[str, Any] = {"role": "system" if role == "developer" and "developer" not in reads.template else role}
    sent_calls = fields.objects("tool_calls", MOST_TOOLS, least=0) if role == "assistant" else ()
    calls = [_call(call, called) for call in sent_calls]  # their ids are recorded
    fields.only("tool_calls", [], because="only messages of an assistant can call tools")
    fields.only("function_call", because=LEGACY)
    # A field of DeepSeek's and Mistral's clients.
    fields.only("prefix", False, because="the last message of a chat cannot be continued")
    fields.only("audio", because="this model reads text only")
    fields.ignore("annotations", [], because="annotations of a text are not supported")
    refusal = fields.text("refusal", "")
    if role in ("assistant", "tool") and not fields.has("content"):
        message["content"] = refusal
    else:
        content = content_in(fields, "content", least=0 if role in ("assistant", "tool") else 1)
        message["content"] = content if isinstance(content, str) else "\n".join(map(_part, content))
    if calls and "tool_calls" in reads.template:
        message["tool_calls"] = calls
    elif calls:
        _pass_over(fields, "tool_calls")
    if role == "tool":
        message["tool_call_id"] = fields.text("tool_call_id")
        if message["tool_call_id"] not in called.identities:
            raise fields.wrong("tool_call_id", "the id of a call in an earlier message")
        message |= {"name": fields.text("name")} if fields.has("name") else {}
    thought = {name: fields.text(name) for name in ("reasoning_content", "reasoning") if fields.has(name)}
    if thought and not reads.field("reasoning_content"):
        _pass_over(fields, next(iter(thought)))
    elif thought:
        message["reasoning_content"] = next(iter(thought.values()))
    if fields.has("name"):
        name = fields.text("name")
        if reads.field("name"):
            message["name"] = name
        else:
            _pass_over(fields, "name")
    fields.close()
    return message


def _pass_over(fields: Fields, name: str) -> None:
    if not fields.passes_over:
        raise FieldError(fields.path(name), f"`{fields.path(name)}`: {UNREAD}", "unsupported")
    fields.note(name)


def _call(fields: Fields, called: _Called) -> dict[str, Any]:
    identity = fields.text("id")
    fields.text("type", "function", choices=("function",))
    fields.whole("index", 0, MOST_INDEX, 0)  # a field of streamed pieces, which some clients send back
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


def content_in(fields: Fields, name: str, least: int = 0) -> str | Iterator[Fields]:
    """A content: a text, or the fields of each part."""
    content = fields.value(name)
    if isinstance(content, str):
        return content
    if content is None:
        raise fields.missing(name)
    if not isinstance(content, list) or not least <= len(content) <= MOST_PARTS:
        raise fields.wrong(name, f"a text, or a list of {least} to {MOST_PARTS} parts")
    return fields.elements(name, content)


def _part(fields: Fields) -> str:
    kind = fields.text("type")
    if kind not in TEXTS:
        raise FieldError(fields.path("type"), f"`{fields.path('type')}`: this model reads text only", "unsupported")
    text = fields.text(TEXTS[kind])
    fields.close()
    return text
