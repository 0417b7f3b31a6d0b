"""The tools of a chat: the client's offers, and the tools that the answer may or must call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.fields import FieldError, Fields
from gateway.sampling import MOST_SCHEMA, MOST_SCHEMA_SIZE
from gateway.schema_size import SHARED, SchemaError, schema_size
from gateway.settings import ModelSettings

MOST_TOOLS = 128
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_PARSER = "this model's inventory row has no `tool_parser`"
NO_TEMPLATE = "this model's chat template does not support tools"
CUSTOM = (
    "calls of custom tools are free text, and this model writes calls as JSON: offer a function whose only parameter "
    "is a text"
)
LEGACY = "this is the older form of `tools` and `tool_choice`"
WORDS = {"none": "none", "auto": "auto", "required": "required", "any": "required"}
"""Choices in a word: OpenAI's, and Mistral's "any"."""
ANYTHING: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class Tools:
    """A request's tools; `choice` is none, auto, required, or "=" and the only tool's name."""

    offered: tuple[Mapping[str, Any], ...] = ()
    choice: str = "none"
    in_parallel: bool = True

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool["function"]["name"] for tool in self.offered)

    @property
    def named(self) -> str:
        return self.choice[1:] if self.choice.startswith("=") else ""

    def guide(self) -> tuple[str, str] | None:
        """The guide that limits the answer to calls, in the slot's form; None if the model may choose.

        Raises: FieldError if the tools' schemas cannot be a guide.
        """
        if self.choice in ("none", "auto"):
            return None
        schemas = {tool["function"]["name"]: tool["function"].get("parameters", ANYTHING) for tool in self.offered}
        schema = schemas[self.named] if self.named else _list_of_calls(schemas, self.in_parallel)
        text = json.dumps(schema, ensure_ascii=False)
        if len(text) > MOST_SCHEMA:
            raise FieldError("tools", f"`tools`: the schemas have more than {MOST_SCHEMA} characters", "invalid_value")
        try:
            size = schema_size(schema)
        except SchemaError as error:
            raise FieldError("tools", f"`tools`: no guide for a schema: {error}", "invalid_value") from None
        if size > MOST_SCHEMA_SIZE:
            message = f"`tools`: the repetitions of their schemas make more than {MOST_SCHEMA_SIZE} rules"
            raise FieldError("tools", message, "invalid_value")
        return ("json_schema", text)


def tools_of(fields: Fields, model: ModelSettings, template_names: frozenset[str]) -> Tools:
    """The tools that the fields offer, in the form that templates read.

    Raises: FieldError for features that this model, its template or its slot lacks.
    """
    for name in ("functions", "function_call"):
        fields.only(name, [], "none", because=LEGACY)
    in_parallel = fields.flag("parallel_tool_calls", True)
    raw_tools, choice = fields.value("tools"), fields.value("tool_choice")
    if raw_tools is None or raw_tools == []:
        if choice not in (None, "none", "auto"):
            raise FieldError("tool_choice", "`tool_choice` wants `tools`")
        return Tools()
    if not isinstance(raw_tools, list) or len(raw_tools) > MOST_TOOLS:
        raise fields.wrong("tools", f"a list of up to {MOST_TOOLS} tools")
    sent_tools = list(fields.elements("tools", raw_tools))
    word, allowed = _choice(choice, fields)
    if word == "none":
        return Tools(in_parallel=in_parallel)
    if not model.tool_parser:
        raise FieldError("tools", f"`tools`: {NO_PARSER}", "unsupported")
    if "tools" not in template_names:
        raise FieldError("tools", f"`tools`: {NO_TEMPLATE}", "unsupported")
    offered = tuple(_tool(tool, word) for tool in sent_tools)
    tools = Tools(offered, word, in_parallel)
    if len(tools.names) < len(offered):
        raise FieldError("tools", "`tools`: two have the same name", "invalid_value")
    if allowed is not None:
        if unknown := allowed - tools.names:
            message = f"`tool_choice` allows {len(unknown)} tools that `tools` does not have"
            raise FieldError("tool_choice", message, "invalid_value")
        tools = Tools(tuple(tool for tool in offered if tool["function"]["name"] in allowed), word, in_parallel)
    if tools.named and tools.named not in tools.names:
        raise FieldError("tool_choice", "`tool_choice` names none of the tools", "invalid_value")
    if word not in ("none", "auto") and model.no_guide:
        raise FieldError("tool_choice", f"`tool_choice`: {model.no_guide}", "unsupported")
    return tools


def refuse_custom(fields: Fields, kind: str) -> None:
    """Raises: FieldError for the `type` of a custom tool, of a choice of one or of its call, which takes free text."""
    if kind.startswith("custom"):
        raise FieldError(fields.path("type"), f"`{fields.path('type')}`: {CUSTOM}", "unsupported")


def _choice(choice: object, request: Fields) -> tuple[str, frozenset[str] | None]:
    """The choice, and the names of the only tools that may be called; None if all may be."""
    if choice is None:
        return "auto", None
    if isinstance(choice, str) and choice in WORDS:
        return WORDS[choice], None
    if not isinstance(choice, dict):
        wanted = "none, auto, required, or an object that names a tool"
        raise FieldError("tool_choice", f"`tool_choice` must be {wanted}", "invalid_value")
    fields = request.within(choice, "tool_choice")
    kind = fields.text("type")
    refuse_custom(fields, kind)
    if kind not in ("function", "allowed_tools"):
        raise fields.wrong("type", "one of function, allowed_tools")
    if kind == "allowed_tools":
        nested = fields.inner("allowed_tools") if fields.has("allowed_tools") else fields
        mode = nested.text("mode", choices=("auto", "required"))
        named = list(nested.objects("tools", MOST_TOOLS))
        for tool in named:
            tool.text("type", choices=("function",))
        allowed = frozenset((tool.inner("function") if tool.has("function") else tool).text("name") for tool in named)
        nested.close()
        return mode, allowed
    function = fields.inner("function")
    name = function.text("name")
    function.close()
    fields.close()
    return f"={name}", None


def _tool(fields: Fields, choice: str) -> dict[str, Any]:
    kind = fields.text("type")
    refuse_custom(fields, kind)
    if kind != "function":
        raise fields.wrong("type", "one of function")
    function = fields.inner("function")
    name = function.text("name")
    if not NAME.fullmatch(name):
        raise function.wrong("name", "1 to 64 letters, digits, `_` or `-`")
    definition: dict[str, Any] = {"name": name, "description": function.text("description", "")}
    parameters = function.value("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise function.wrong("parameters", "a JSON schema")
    definition["parameters"] = {"type": "object", "properties": {}} if parameters is None else parameters
    if function.flag("strict", False) and choice == "auto":
        if not function.passes_over:
            where = function.path("strict")
            reason = "arguments are limited to the schema only if `tool_choice` requires a call"
            raise FieldError(where, f"`{where}`: {reason}", "unsupported")
        function.note("strict")
    function.close()
    fields.close()
    return {"type": "function", "function": definition}


def _list_of_calls(schemas: Mapping[str, Mapping[str, Any]], in_parallel: bool) -> dict[str, Any]:
    shared: dict[str, dict[str, Any]] = {}
    calls = []
    for name, schema in schemas.items():
        own = {word: value for word, value in schema.items() if word not in SHARED}
        for word in SHARED:
            if not isinstance(named := schema.get(word) or {}, dict):
                raise FieldError("tools", f"`tools`: `{word}` of a schema must be an object", "invalid_value")
            for title, value in named.items():
                if shared.setdefault(word, {}).setdefault(title, value) != value:
                    message = f"two schemas mean different things by `{word}/{title}`"
                    raise FieldError("tools", f"`tools`: {message}", "unsupported")
        call = {"name": {"type": "string", "enum": [name]}, "parameters": own}
        closed = {"required": ["name", "parameters"], "additionalProperties": False}
        calls.append({"type": "object", "properties": call, **closed})
    most = {} if in_parallel else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **most, "items": {"anyOf": calls}, **shared}
