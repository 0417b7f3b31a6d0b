"""Calls of OpenAI's and Anthropic's own Python libraries, unmodified, to a gateway before a model with random weights.

ENGINEHOUSE_URL=… OPENAI_API_KEY=… python -m rehearsal.real_gpu.sdk_calls MODEL [EMBEDDER]

It runs where the libraries are, and prints one JSON line a call: its name, the answer's outline, or the error. Random
weights never choose a tool or write a meaningful word, so the requests force calls, and schemas have few values. An
answer that the token limit cut is requested again, because random weights may write only white space.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from typing import Any

TRIES = 4
CITIES = ["Bergen", "Lima", "Osaka"]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": CITIES}, "wants_rain": {"type": "boolean"}},
    "required": ["city", "wants_rain"],
    "additionalProperties": False,
}
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
TEXTS = ["the cat", "a mat"]
FORMAT = {"type": "json_schema", "name": "trip", "schema": SCHEMA, "strict": True}
Call = Callable[[], Any]


class Cut(Exception):
    """The limit of tokens ended an answer that has to be complete."""


def trip(text: str | None) -> Any:
    """Returns the object in a text, which has to be of SCHEMA."""
    try:
        value = json.loads(text or "")
    except ValueError:
        raise Cut from None
    assert set(value) == {"city", "wants_rain"} and value["city"] in CITIES and type(value["wants_rain"]) is bool, value
    return value


def some(text: str | None) -> str:
    """Returns the beginning of a text, which has to have one."""
    assert text and text.strip(), "no text"
    return text[:40]


def openai_calls(model: str, embedder: str = "") -> dict[str, Call]:
    """Returns the calls of OpenAI's library, by their names in `tests/clients/README.md`."""
    client = importlib.import_module("openai").OpenAI(
        base_url=f"{os.environ['ENGINEHOUSE_URL']}/v1", api_key=os.environ["OPENAI_API_KEY"], max_retries=0, timeout=60
    )
    chats, new = client.chat.completions, client.responses
    shared = {"model": model, "max_completion_tokens": 300}
    tool = {"type": "function", "function": {"name": "forecast", "parameters": SCHEMA, "strict": True}}
    flat = {"type": "function", "name": "forecast", "parameters": SCHEMA, "strict": True}

    def stream() -> Any:
        with chats.stream(messages=HELLO, **shared) as events:
            return some("".join(event.delta for event in events if event.type == "content.delta"))

    def call() -> Any:
        more = {**shared, "tools": [tool], "parallel_tool_calls": False}
        first = chats.create(messages=HELLO, tool_choice="required", **more).choices[0].message
        if not first.tool_calls:
            raise Cut
        value = trip(first.tool_calls[0].function.arguments)
        result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "rain"}
        second = chats.create(messages=[*HELLO, first, result], tool_choice="none", **more).choices[0].message
        return [value, some(second.content)]

    def schema() -> Any:
        form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
        return trip(chats.create(messages=HELLO, response_format=form, **shared).choices[0].message.content)

    def responses_stream() -> Any:
        with new.stream(model=model, input="hello", max_output_tokens=100) as events:
            return some("".join(event.delta for event in events if event.type == "response.output_text.delta"))

    def responses_tool() -> Any:
        more = {"model": model, "tools": [flat], "store": False, "max_output_tokens": 300, "parallel_tool_calls": False}
        first = new.create(input=HELLO, tool_choice="required", **more)
        if first.output[-1].type != "function_call":
            raise Cut
        value, turn = trip(first.output[-1].arguments), [*HELLO, *first.output]
        turn.append({"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain"})
        return [value, some(new.create(input=turn, tool_choice="none", **more).output_text)]

    def responses_schema() -> Any:
        return trip(new.create(model=model, input="hello", text={"format": FORMAT}, max_output_tokens=300).output_text)

    calls: dict[str, Call] = {
        "chat": lambda: some(chats.create(messages=HELLO, **shared).choices[0].message.content),
        "stream": stream,
        "tool": call,
        "schema": schema,
        "responses": lambda: some(new.create(model=model, input="hello", max_output_tokens=100).output_text),
        "responses_stream": responses_stream,
        "responses_tool": responses_tool,
        "responses_schema": responses_schema,
        "completion": lambda: some(
            client.completions.create(model=model, prompt="the cat", max_tokens=24).choices[0].text
        ),
    }
    if embedder:
        calls["vectors"] = lambda: [
            len(item.embedding) for item in client.embeddings.create(model=embedder, input=TEXTS).data
        ]
    return calls


def anthropic_calls(model: str) -> dict[str, Call]:
    """Returns the calls of Anthropic's library."""
    client = importlib.import_module("anthropic").Anthropic(
        base_url=os.environ["ENGINEHOUSE_URL"], api_key=os.environ["OPENAI_API_KEY"], max_retries=0, timeout=60
    )
    messages, shared = client.messages, {"model": model, "max_tokens": 300}
    tools = [{"name": "forecast", "description": "Weather.", "input_schema": SCHEMA}]

    def stream() -> Any:
        with messages.stream(messages=HELLO, **shared) as events:
            return some("".join(events.text_stream))

    def call() -> Any:
        demand = {"type": "any", "disable_parallel_tool_use": True}
        first = messages.create(messages=HELLO, tools=tools, tool_choice=demand, **shared).content
        if first[-1].type != "tool_use":
            raise Cut
        value = trip(json.dumps(first[-1].input))
        result = {"type": "tool_result", "tool_use_id": first[-1].id, "content": "rain"}
        turn = [*HELLO, {"role": "assistant", "content": first}, {"role": "user", "content": [result]}]
        second = messages.create(messages=turn, tools=tools, tool_choice={"type": "none"}, **shared)
        return [value, some(second.content[0].text)]

    def schema() -> Any:
        form = {"format": {"type": "json_schema", "schema": SCHEMA}}
        return trip(messages.create(messages=HELLO, output_config=form, **shared).content[0].text)

    return {
        "chat": lambda: some(messages.create(messages=HELLO, **shared).content[0].text),
        "stream": stream,
        "tool": call,
        "schema": schema,
        "count": lambda: messages.count_tokens(model=model, messages=HELLO).input_tokens,
    }


def tried(call: Call) -> dict[str, Any]:
    """Returns the answer of a call and its tries, or its error."""
    for number in range(1, TRIES + 1):
        try:
            return {"answer": call(), "tries": number}
        except Cut:
            continue
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300], "tries": number}
    return {"error": "each try was cut by its limit of tokens", "tries": TRIES}


def main() -> None:
    """Prints the lines of both libraries."""
    model, *embedders = sys.argv[1:]
    for name, calls in (("openai", openai_calls(model, *embedders)), ("anthropic", anthropic_calls(model))):
        client = f"{name} {importlib.metadata.version(name)}"
        for call, body in calls.items():
            print(json.dumps({"client": client, "call": call, **tried(body)}), flush=True)


if __name__ == "__main__":
    main()
