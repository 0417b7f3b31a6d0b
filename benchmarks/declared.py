"""Compares reading a chat's body field by field, like the gateway, with one declared model of msgspec or pydantic.

    pip install --target DIR msgspec
    PYTHONPATH=DIR python -m benchmarks.declared [SECONDS]

From the bytes of a body to checked values, in microseconds, the least of many batches; and refusals of wrong bodies.
The last line is one JSON object. The models declare types, ranges and sizes alone. The gateway also names unknown
fields, and judges by what the model's template reads: its figure includes that.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1] / "files"))

import pydantic

from gateway.fields import FieldError, Fields
from gateway.load import Pauses
from gateway.messages import messages_of
from gateway.sampling import sampling_of
from gateway.settings import ModelSettings
from gateway.tools import tools_of
from tests.gateway.test_tools import TOOLS_TEMPLATE

msgspec: Any = importlib.import_module("msgspec")

BATCH = 5
NAME = "^[a-zA-Z0-9_-]{1,64}$"
Make = Callable[..., Any]
"""Function that makes a class of a name and fields; each field has a type and a default, or `...` without one."""


def struct(name: str, /, **fields: tuple[Any, Any]) -> Any:
    """Returns a class of msgspec."""
    parts = [(word, kind) if default is ... else (word, kind, default) for word, (kind, default) in fields.items()]
    return msgspec.defstruct(name, sorted(parts, key=len))


def basemodel(name: str, /, **fields: tuple[Any, Any]) -> Any:
    """Returns a class of pydantic, which accepts no text for a number."""
    create_model: Any = pydantic.create_model
    return create_model(name, __config__=pydantic.ConfigDict(strict=True), **fields)


def list_of(kind: Any) -> Any:
    """Returns a list of a class that was made at run time."""
    return list[kind]


def between(kind: Any, least: float, most: float) -> Any:
    """Returns a number of that type, or None."""
    return Annotated[kind, msgspec.Meta(ge=least, le=most), pydantic.Field(ge=least, le=most)] | None


def chat_of(make: Make) -> Any:
    """Returns the body of a chat."""
    texts = Literal["text", "input_text", "output_text", "refusal"]
    part: Any = make("Part", type=(texts, ...), text=(str, ...))
    called: Any = make("Called", name=(str, ...), arguments=(str, "{}"))
    call: Any = make("Call", id=(str, ...), function=(called, ...), type=(Literal["function"], "function"))
    message: Any = make(
        "Message",
        role=(Literal["system", "developer", "user", "assistant", "tool"], ...),
        content=(str | list_of(part) | None, None),
        name=(str | None, None),
        tool_call_id=(str | None, None),
        tool_calls=(list_of(call) | None, None),
        reasoning_content=(str | None, None),
    )
    function: Any = make(
        "Function",
        name=(Annotated[str, msgspec.Meta(pattern=NAME), pydantic.Field(pattern=NAME)], ...),
        description=(str, ""),
        parameters=(dict[str, Any] | None, None),
        strict=(bool, False),
    )
    tool: Any = make("Tool", function=(function, ...), type=(Literal["function"], "function"))
    size = msgspec.Meta(min_length=1, max_length=4096), pydantic.Field(min_length=1, max_length=4096)
    return make(
        "Chat",
        model=(str, ...),
        messages=(Annotated[list_of(message), *size], ...),
        tools=(list_of(tool) | None, None),
        tool_choice=(str | dict[str, Any] | None, None),
        parallel_tool_calls=(bool, True),
        temperature=(between(float, 0, 2), None),
        top_p=(between(float, 0, 1), None),
        min_p=(between(float, 0, 1), None),
        frequency_penalty=(between(float, -2, 2), None),
        presence_penalty=(between(float, -2, 2), None),
        repetition_penalty=(between(float, 0.01, 10), None),
        top_k=(int | None, None),
        seed=(int | None, None),
        n=(between(int, 1, 128), None),
        max_tokens=(between(int, 1, 2**31 - 1), None),
        max_completion_tokens=(between(int, 1, 2**31 - 1), None),
        min_tokens=(int, 0),
        stop=(str | list[str] | None, None),
        stream=(bool, False),
    )


class _Pauses(Pauses):
    async def pause(self) -> None:
        """Returns at once, because pauses are not measured."""


LLM: dict[str, Any] = {"triton_model": "llama", "created": 0, "tool_parser": "hermes", "context_tokens": 9999}
MODEL = ModelSettings(name="llama", kind="llm", servers=(), **LLM)
NAMES = frozenset({"messages", "tools"})


async def _by_field(body: bytes) -> None:
    fields = Fields(json.loads(body))
    pauses: Any = _Pauses()
    fields.text("model")
    tools_of(fields, MODEL, NAMES)
    await messages_of(fields, TOOLS_TEMPLATE, pauses)
    sampling_of(fields, {}, MODEL.context_tokens)
    fields.flag("stream", False)
    fields.close()


def by_field(body: bytes) -> None:
    """Reads a request field by field like the gateway, without a turn of the event loop."""
    try:
        _by_field(body).send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


READERS: dict[str, Callable[[bytes], object]] = {
    "field by field": by_field,
    "msgspec": msgspec.json.Decoder(chat_of(struct)).decode,
    "pydantic": chat_of(basemodel).model_validate_json,
}
PARAMETERS = {"type": "object", "properties": {name: {"type": "string"} for name in "abcdef"}, "required": ["a"]}
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{number}", "description": "x" * 80, "parameters": PARAMETERS}}
    for number in range(20)
]
USER, ASSISTANT = {"role": "user", "content": "How is it? " * 20}, {"role": "assistant", "content": "Fine. " * 40}
SHORT: dict[str, Any] = {"model": "llama", "messages": [USER], "temperature": 0.2, "max_tokens": 100, "stream": True}
BODIES: dict[str, dict[str, Any]] = {
    "a short chat": SHORT,
    "200 messages": SHORT | {"messages": [USER, ASSISTANT] * 100},
    "20 tools": SHORT | {"tools": TOOLS},
}
WRONG: dict[str, dict[str, Any]] = {
    "an unknown field": SHORT | {"temperatur": 1},
    "a number out of its range": SHORT | {"temperature": 3},
    "a number as a text": SHORT | {"max_tokens": "100"},
    "an image": SHORT | {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
}


def microseconds(reader: Callable[[bytes], object], body: bytes, seconds: float) -> float:
    """Returns the least of many short batches, few of which other work on this machine disturbs."""
    best, ends = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        for _ in range(BATCH):
            reader(body)
        best = min(best, (time.perf_counter() - began) / BATCH)
    return round(best * 1e6, 1)


def refusal(reader: Callable[[bytes], object], body: bytes) -> str:
    """Returns the refusal's text; "" for an accepted body."""
    try:
        reader(body)
    except FieldError as error:
        return error.message
    except (msgspec.ValidationError, pydantic.ValidationError) as error:
        return " ".join(str(error).split())
    return ""


def main() -> None:
    """Prints the result."""
    seconds = float((sys.argv[1:] or ["2"])[0])
    encoded = {name: json.dumps(body).encode() for name, body in (BODIES | WRONG).items()}
    taken = {
        name: {reader: microseconds(read, encoded[name], seconds) for reader, read in READERS.items()}
        for name in BODIES
    }
    words = {name: {reader: refusal(read, encoded[name]) for reader, read in READERS.items()} for name in WRONG}
    versions = {"msgspec": msgspec.__version__, "pydantic": pydantic.VERSION, "python": platform.python_version()}
    print(json.dumps({"microseconds": taken, "refusals": words, "load": round(os.getloadavg()[0], 1), **versions}))


if __name__ == "__main__":
    main()
