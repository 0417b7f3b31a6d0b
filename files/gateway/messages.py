"""The `messages` of a chat, checked and brought into the form that templates read."""

from __future__ import annotations

import re
from typing import Any

from gateway.fields import FieldError, Fields

ROLES = ("system", "developer", "user", "assistant")
MOST_MESSAGES = 4096
MOST_PARTS = 1024
TOOLS = "this model's row names no parser of tool calls"


def messages_of(fields: Fields, template: str) -> list[dict[str, Any]]:
    """The messages as templates read them: a role and a text.

    `developer` is `system` to a template that does not know it. Fields that the template does not read are refused.
    """
    given = fields.items("messages", MOST_MESSAGES)
    return [_message(Fields(one, f"messages[{number}]"), template) for number, one in enumerate(given)]


def _message(fields: Fields, template: str) -> dict[str, Any]:
    role = fields.text("role")
    if role in ("tool", "function"):
        raise FieldError(fields.path("role"), f"`{fields.path('role')}`: {TOOLS}", "unsupported")
    if role not in ROLES:
        raise fields.wrong("role", f"one of {', '.join(ROLES)}")
    fields.only("tool_calls", [], because=TOOLS)
    fields.only("function_call", because=TOOLS)
    fields.only("audio", because="this model reads text only")
    fields.only("refusal", because="a refusal of another model is not read")
    found = {"role": "system" if role == "developer" and "developer" not in template else role}
    found["content"] = _content(fields)
    for name in ("name", "reasoning_content"):
        if fields.has(name):
            if not re.search(rf"message(\.|\[['\"]){name}\b", template):
                reason = "this model's template does not read it"
                raise FieldError(fields.path(name), f"`{fields.path(name)}`: {reason}", "unsupported")
            found[name] = fields.text(name)
    fields.close()
    return found


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
