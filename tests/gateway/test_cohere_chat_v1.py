"""Cohere's first chat: the model's input, the lines of a stream, turns with tools, and refused requests."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.gateway.asking import in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_responses import WRITTEN
from tests.gateway.test_tools import TOOLS_TEMPLATE, prompt_of, running_gateway, spoken
from tests.gateway.triton import Script

PATH = "/v1/chat"
ADD: dict[str, Any] = {
    "name": "add",
    "description": "Adds.",
    "parameter_definitions": {
        "a": {"type": "int", "description": "A number.", "required": True},
        "rest": {"type": "List[float]"},
        "unknown": {"type": "datetime"},
    },
}
CALL: dict[str, Any] = {"name": "add", "parameters": {"a": 1}}


def body(message: str = "1?", **more: Any) -> dict[str, Any]:
    return {"model": "llama", "message": message, **more}


def lines(answer: Any) -> list[Any]:
    return [json.loads(line) for line in answer.body.decode().splitlines() if line]


def turns(front: Any) -> list[str]:
    """Returns the messages of the prompt."""
    return [text.split("<|im_end|>")[0] for text in prompt_of(front).split("<|im_start|>")[1:]]


@in_loop
async def test_a_message_with_its_history_is_answered(tmp_path: Path) -> None:
    history = [{"role": "USER", "message": "0?"}, {"role": "CHATBOT", "message": "0!"}]
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask(PATH, body(preamble="Be brief.", chat_history=history, k=5, p=0.5))).json()
        shown, tensors = turns(front), front.triton.requests[-1].tensors
    assert shown[:4] == ["system\nBe brief.", "user\n0?", "assistant\n0!", "user\n1?"]
    assert (tensors["sampling_param_top_k"], tensors["sampling_param_top_p"]) == ([5], [0.5])
    assert (answer["text"], answer["finish_reason"]) == ("Hello wörld", "COMPLETE")
    assert answer["chat_history"][2:] == [
        {"role": "USER", "message": "1?"},
        {"role": "CHATBOT", "message": "Hello wörld"},
    ]
    assert answer["meta"]["tokens"]["output_tokens"] == 5


@in_loop
async def test_a_stream_is_a_json_value_on_each_line(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        streamed = await front.ask(PATH, body(tools=[ADD], stream=True))
        whole = (await front.ask(PATH, body(tools=[ADD]))).json()
    came = lines(streamed)
    assert streamed.headers["content-type"] == "application/stream+json"
    assert [kind for kind, _ in groupby(event["event_type"] for event in came)] == [
        *("stream-start", "text-generation", "tool-calls-chunk", "tool-calls-generation", "stream-end"),
    ]
    chunks = [event["tool_call_delta"] for event in came if event["event_type"] == "tool-calls-chunk"]
    assert chunks[0] == {"index": 0, "name": "add"}
    assert json.loads("".join(chunk.get("parameters", "") for chunk in chunks)) == {"a": 1}
    assert came[-1]["response"]["tool_calls"] == whole["tool_calls"] == [CALL]
    assert "".join(event["text"] for event in came if event["event_type"] == "text-generation") == whole["text"]
    assert [event["is_finished"] for event in came] == [False] * (len(came) - 1) + [True]


@in_loop
async def test_parameters_become_a_schema_of_their_types(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.ask(PATH, body(tools=[ADD]))
        prompt = prompt_of(front)
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "A number."},
            "rest": {"type": "array", "items": {"type": "number"}},
            "unknown": {},
        },
        "required": ["a"],
    }
    assert json.dumps(schema) in prompt


@pytest.mark.parametrize("is_long", [True, False])
@in_loop
async def test_results_of_tools_answer_the_calls_that_they_repeat(tmp_path: Path, is_long: bool) -> None:
    """A history of several steps ends with the calls; in a single step only the results have them."""
    results = [{"call": CALL, "outputs": [{"sum": 2}]}]
    user = {"role": "USER", "message": "1?"}
    history = [user, {"role": "CHATBOT", "message": "So.", "tool_calls": [CALL]}]
    sent = body("", chat_history=history, tool_results=results) if is_long else body(tool_results=results)
    async with plain_gateway(
        tmp_path, template=TOOLS_TEMPLATE, llm={"tool_parser": "hermes", "context_tokens": 2000}
    ) as front:
        answer = await front.ask(PATH, sent | {"tools": [ADD]})
        shown, prompt = turns(front), prompt_of(front)
    assert answer.status == 200, answer.body
    assert '(call_0 add {"a": 1})' in prompt
    assert shown[-4:] == ["user\n1?", f"assistant\n{'So.' if is_long else ''}", 'tool\n[{"sum":2}]', "assistant\n"]
    assert answer.json()["chat_history"][-2] == {"role": "TOOL", "tool_results": results}


@in_loop
async def test_the_history_of_an_answer_is_accepted_back(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        first = (await front.ask(PATH, body(tools=[ADD]))).json()
        results = [{"call": first["tool_calls"][0], "outputs": []}]
        more: dict[str, Any] = {"chat_history": first["chat_history"], "tool_results": results}
        second = (await front.ask(PATH, body("", tools=[ADD], **more))).json()
        third = await front.ask(PATH, body("And?", tools=[ADD], chat_history=second["chat_history"]))
    assert third.status == 200, third.body


@in_loop
async def test_a_stream_that_breaks_ends_with_an_error(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = Script(error=(StatusCode.INTERNAL, "secret"), error_after=1)
        streamed = await front.ask(PATH, body(stream=True))
    last = lines(streamed)[-1]
    assert (last["event_type"], last["is_finished"], last["finish_reason"]) == ("stream-end", True, "ERROR")
    assert b"secret" not in streamed.body


@pytest.mark.parametrize(
    ("sent", "param", "words"),
    [
        (body(""), "message", "at least one character"),
        (body(conversation_id="c"), "conversation_id", "chat_history"),
        (body(connectors=[{"id": "web-search"}]), "connectors", "no other servers"),
        (body(documents=[{"text": "a"}]), "documents", "into a message"),
        (body(prompt_truncation="AUTO"), "prompt_truncation", "too long"),
        (body(p=2), "p", "number"),
        (body(temperatur=1), "temperatur", "unknown field"),
        (body(chat_history=[{"role": "user", "message": "a"}]), "chat_history[0].role", "CHATBOT"),
        (body(tools=[ADD | {"name": "a b"}]), "tools[0].name", "letters"),
        (body(tools=[ADD | {"parameter_definitions": 1}]), "tools[0].parameter_definitions", "object"),
        (
            body("", chat_history=[{"role": "CHATBOT", "message": "", "tool_calls": [CALL]}],
                 tool_results=[{"call": CALL | {"parameters": {"a": 2}}, "outputs": []}]),
            "tool_results",
            "repeat a call",
        ),
    ],
)  # fmt: skip
def test_a_refusal_names_the_clients_own_field(tmp_path: Path, sent: Any, param: str, words: str) -> None:
    @in_loop
    async def ask() -> None:
        async with running_gateway(tmp_path) as front:
            answer = await front.ask(PATH, sent)
            assert (answer.status, answer.error["param"]) == (400, param), answer.body
            assert words in answer.json()["message"]

    ask()
