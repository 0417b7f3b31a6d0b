"""OpenAI's Responses: the model's input, the items and events of an answer, and refused requests."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.gateway.asking import in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_tools import TOOLS_TEMPLATE, prompt_of, running_gateway, spoken
from tests.gateway.triton import Script
from tests.gateway.weights import TEMPLATE

PATH = "/v1/responses"
ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "strict": True,
}
WRITTEN = '<think>\nhm\n</think>\n\nLet me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
PIXEL = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def body(**more: Any) -> dict[str, Any]:
    return {"model": "llama", "input": "1?", **more}


def names(answer: Any) -> list[str]:
    """Returns the names of a stream's events, each repeated in its data."""
    lines = [line for line in answer.body.decode().splitlines() if line.startswith("event: ")]
    assert [line.removeprefix("event: ") for line in lines] == [event["type"] for event in events(answer)]
    return [event["type"].removeprefix("response.") for event in events(answer)]


def events(answer: Any) -> list[Any]:
    lines = [line for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@in_loop
async def test_a_text_is_answered_as_a_single_message(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask(PATH, body(instructions="Be brief.", metadata={"a": "b"}, store=True))).json()
        prompt = prompt_of(front)
    assert "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1?<|im_end|>" in prompt
    (item,) = answer["output"]
    assert (item["type"], item["status"], item["content"][0]["text"]) == ("message", "completed", "Hello wörld")
    assert (answer["object"], answer["status"], answer["store"]) == ("response", "completed", False)
    assert (answer["metadata"], answer["instructions"]) == ({"a": "b"}, "Be brief.")
    usage = answer["usage"]
    assert (usage["output_tokens"], usage["total_tokens"]) == (5, usage["input_tokens"] + 5)


@in_loop
async def test_a_stream_has_every_event_in_order_and_ends_with_the_whole_answer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        streamed = await front.ask(PATH, body(tools=[ADD], stream=True))
        whole = (await front.ask(PATH, body(tools=[ADD]))).json()
    seen = [name for name, _ in groupby(names(streamed))]
    item, part = "output_item.added", "content_part.added"
    assert seen == [
        *("created", "in_progress"),
        *(item, part, "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done"),
        *(item, part, "output_text.delta", "output_text.done", "content_part.done", "output_item.done"),
        *(item, "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    came = events(streamed)
    assert [event["sequence_number"] for event in came] == list(range(len(came)))
    assert came[0]["response"]["status"] == "in_progress" and came[0]["response"]["output"] == []
    last = came[-1]["response"]
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call"]
    assert last["output"] == [event["item"] for event in came if event["type"] == "response.output_item.done"]
    for texts in (last["output"], whole["output"]):
        assert texts[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
        assert texts[1]["content"][0]["text"] == "Let me add."
        assert (texts[2]["name"], json.loads(texts[2]["arguments"])) == ("add", {"a": 1})
    assert "".join(event["delta"] for event in came if event["type"] == "response.output_text.delta") == "Let me add."
    assert b"[DONE]" not in streamed.body


@in_loop
async def test_the_items_of_a_turn_become_its_messages(tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "1?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
         "content": [{"type": "output_text", "text": "So.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a": 1}',
         "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
    ]  # fmt: skip
    template = TOOLS_TEMPLATE.replace("{{ content }}", "({{ message.reasoning_content }}){{ content }}")
    async with plain_gateway(
        tmp_path, template=template, llm={"tool_parser": "hermes", "context_tokens": 2000}
    ) as front:
        answer = await front.ask(PATH, body(input=items, tools=[ADD]))
        prompt = prompt_of(front)
    assert answer.status == 200, answer.body
    assert '(c1 add {"a": 1})' in prompt and '(c2 add {"a": 2})' in prompt
    turns = [turn.split("<|im_end|>")[0] for turn in prompt.split("<|im_start|>")[1:]]
    assert turns == ["user\n()1?", "assistant\n(hm)So.", "tool\n()2", "tool\n()3", "assistant\n"]


@in_loop
async def test_reasoning_that_a_client_without_storage_sends_back_reaches_the_model(tmp_path: Path) -> None:
    template = TOOLS_TEMPLATE.replace("{{ content }}", "({{ message.reasoning_content }}){{ content }}")
    more: dict[str, Any] = {"include": ["reasoning.encrypted_content"], "store": False}
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        thought = (await front.ask(PATH, body(**more))).json()["output"][0]
        plain = (await front.ask(PATH, body())).json()["output"][0]
    async with plain_gateway(tmp_path, template=template) as front:
        del thought["content"]
        items = [thought, {"type": "reasoning", "summary": [], "encrypted_content": "another's"}]
        turn = [{"role": "user", "content": "1?"}, *items, {"role": "assistant", "content": "So."}]
        answer = await front.ask(PATH, body(input=[*turn, {"role": "user", "content": "And?"}]))
        prompt = prompt_of(front)
    assert plain["encrypted_content"] is None
    assert answer.status == 200 and "assistant\n(hm)So." in prompt


@in_loop
async def test_an_answer_that_was_cut_is_incomplete(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = spoken("Hel", finish="length")
        whole = (await front.ask(PATH, body(max_output_tokens=3))).json()
        streamed = await front.ask(PATH, body(max_output_tokens=3, stream=True))
        assert front.triton.requests[-1].tensors["sampling_param_max_tokens"] == [3]
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert whole["output"][0]["status"] == "incomplete" and whole["max_output_tokens"] == 3
    assert names(streamed)[-1] == "incomplete"


@in_loop
async def test_an_answer_of_no_text_is_an_empty_message(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = spoken()
        whole = (await front.ask(PATH, body())).json()
        streamed = await front.ask(PATH, body(stream=True))
    assert whole["output"][0]["content"][0]["text"] == ""
    assert events(streamed)[-1]["response"]["output"][0]["content"][0]["text"] == ""


@in_loop
async def test_a_stream_that_breaks_ends_with_the_failed_response(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = Script(error=(StatusCode.INTERNAL, "secret"), error_after=1)
        streamed = await front.ask(PATH, body(stream=True))
    assert names(streamed)[-1] == "failed"
    response = events(streamed)[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert b"secret" not in streamed.body


@in_loop
async def test_an_error_before_the_first_event_has_openais_shape(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = Script(error=(StatusCode.UNAVAILABLE, "exceeds maximum queue size"))
        answer = await front.ask(PATH, body(stream=True))
    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "overloaded", "1")


@pytest.mark.parametrize(
    ("more", "ignored"),
    [
        ({"include": []}, None),
        ({"include": ["reasoning.encrypted_content"]}, None),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, None),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ],
)
@in_loop
async def test_options_without_an_effect_here_are_accepted(tmp_path: Path, more: Any, ignored: str | None) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body(**more))
    assert (answer.status, answer.headers.get("x-enginehouse-ignored")) == (200, ignored), answer.body


@in_loop
async def test_a_format_holds_the_answer_to_its_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body(text={"format": form, "verbosity": "low"}))
        tensors = front.triton.requests[-1].tensors
    assert json.loads(tensors["guided_decoding_guide"][0]) == schema
    assert answer.json()["text"]["format"] == form


@in_loop
async def test_only_allowed_tools_are_shown(tmp_path: Path) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]}
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body(tools=[{"type": "function", "name": "now"}, ADD], tool_choice=choice))
        assert '"add"' in prompt_of(front) and '"now"' not in prompt_of(front)
    assert answer.json()["tool_choice"] == choice


@in_loop
async def test_effort_none_disables_thinking_in_the_template(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path, template=TEMPLATE) as front:
        await front.ask(PATH, body(reasoning={"effort": "none", "summary": "auto"}))
        assert prompt_of(front).endswith("<think>\n\n</think>\n\n")
        await front.ask(PATH, body(reasoning={"effort": "high"}))
        assert prompt_of(front).endswith("assistant\n")


CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "a", "input": "x"}


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "stores no responses"),
        ({"conversation": "conv_1"}, "conversation", "stores no responses"),
        ({"background": True}, "background", "nobody could fetch"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type", "stores no responses"),
        ({"input": [{"role": "user", "content": [PIXEL]}]}, "input[0].content[0].type", "reads text only"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "runs no tools"),
        ({"tools": [{"type": "custom", "name": "a"}]}, "tools[0].type", "whose only parameter is a text"),
        ({"tools": [ADD], "tool_choice": {"type": "custom", "name": "a"}}, "tool_choice.type", "parameter is a text"),
        ({"input": [CUSTOM_CALL]}, "input[0].type", "whose only parameter is a text"),
        ({"include": ["message.output_text.logprobs"]}, "include", "/v1/chat/completions"),
        ({"temperatur": 1}, "temperatur", "unknown field"),
        ({"max_output_tokens": 0}, "max_output_tokens", "whole number"),
        ({"input": "word " * 500}, "input", "context"),
        ({"input": [{"type": "function_call_output", "call_id": "c9", "output": ""}]}, "input[0].call_id", "earlier"),
        ({"tools": [ADD | {"name": "a b"}]}, "tools[0].name", "letters"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_clients_own_field(tmp_path: Path, more: Any, param: str, words: str) -> None:
    @in_loop
    async def ask() -> None:
        async with running_gateway(tmp_path, context_tokens=200) as front:
            answer = await front.ask(PATH, body(**more))
            assert (answer.status, answer.error["param"]) == (400, param), answer.body
            assert words in answer.error["message"] and "messages[" not in answer.error["message"]

    ask()
