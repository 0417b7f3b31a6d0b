"""Anthropic's Messages: the model's input, the blocks and events of an answer, and refused requests."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.gateway.asking import KEY, in_loop, lines
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_responses import WRITTEN, events
from tests.gateway.test_tools import TOOLS_TEMPLATE, prompt_of, running_gateway, spoken
from tests.gateway.triton import Script

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
ADD: dict[str, Any] = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "cache_control": {"type": "ephemeral"},
}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def body(*content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": list(content) or "1?"}
    return {"model": "llama", "max_tokens": 50, "messages": [message], **more}


@in_loop
async def test_a_message_is_answered_as_blocks_with_its_usage(tmp_path: Path) -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask(PATH, body(system=system, metadata={"user_id": "u"}, top_k=5))).json()
        tensors, prompt = front.triton.requests[-1].tensors, prompt_of(front)
    assert "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1?<|im_end|>" in prompt
    assert (tensors["sampling_param_max_tokens"], tensors["sampling_param_top_k"]) == ([50], [5])
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", "llama")
    assert answer["content"] == [{"type": "text", "text": "Hello wörld"}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert answer["usage"]["output_tokens"] == 5 and answer["usage"]["input_tokens"] > 0


@in_loop
async def test_a_stream_has_every_event_in_order(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        streamed = await front.ask(PATH, body(tools=[ADD], stream=True))
        whole = (await front.ask(PATH, body(tools=[ADD]))).json()
    came = events(streamed)
    assert [line.removeprefix("event: ") for line in streamed.body.decode().splitlines() if line[:6] == "event:"] == [
        event["type"] for event in came
    ]
    kinds = [event.get("delta", {}).get("type") or event["type"] for event in came]
    start, stop = "content_block_start", "content_block_stop"
    assert [kind for kind, _ in groupby(kinds)] == [
        *("message_start", "ping"),
        *(start, "thinking_delta", "signature_delta", stop),
        *(start, "text_delta", stop),
        *(start, "input_json_delta", stop),
        *("message_delta", "message_stop"),
    ]
    assert came[0]["message"]["content"] == [] and came[0]["message"]["usage"]["input_tokens"] > 0
    assert (came[-2]["delta"]["stop_reason"], came[-2]["usage"]["output_tokens"]) == ("tool_use", 9)
    pieces = [
        event["delta"]["partial_json"] for event in came if event.get("delta", {}).get("type") == "input_json_delta"
    ]
    assert json.loads("".join(pieces)) == {"a": 1}
    thinking, text, call = whole["content"]
    assert (thinking["thinking"], text["text"], call["input"]) == ("hm", "Let me add.", {"a": 1})
    assert thinking["signature"] and call["id"] and whole["stop_reason"] == "tool_use"
    assert b"[DONE]" not in streamed.body


@in_loop
async def test_tool_results_and_thinking_reach_the_model(tmp_path: Path) -> None:
    turn = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "So."},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "2"}], "is_error": False},
            {"type": "text", "text": "And?"},
        ]},
    ]  # fmt: skip
    template = TOOLS_TEMPLATE.replace("{{ content }}", "({{ message.reasoning_content }}){{ content }}")
    async with plain_gateway(
        tmp_path, template=template, llm={"tool_parser": "hermes", "context_tokens": 2000}
    ) as front:
        answer = await front.ask(PATH, body() | {"messages": turn, "tools": [ADD]})
        prompt = prompt_of(front)
    assert answer.status == 200, answer.body
    assert '(c1 add {"a": 1})' in prompt
    turns = [text.split("<|im_end|>")[0] for text in prompt.split("<|im_start|>")[1:]]
    assert turns == ["user\n()1?", "assistant\n(hm)So.", "tool\n()2", "user\n()And?", "assistant\n"]


@in_loop
async def test_counted_tokens_are_those_of_the_prompt(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        sent = body(system="Be brief.", tools=[ADD])
        whole = (await front.ask(PATH, sent)).json()
        del sent["max_tokens"]
        counted = (await front.ask(COUNT, sent)).json()
    assert counted == {"input_tokens": whole["usage"]["input_tokens"]}


@in_loop
async def test_a_key_is_accepted_and_refused_in_x_api_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with plain_gateway(tmp_path) as front:
        right = await front.ask(PATH, body(), key=None, headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"})
        wrong = await front.ask(PATH, body(), key=None, headers={"x-api-key": "eh-wrong"})
        missing = await front.ask(PATH, body(), key=None)
    assert right.status == 200
    assert next(line["tenant"] for line in lines(capsys)) == "acme"
    for answer in (wrong, missing):
        assert (answer.status, answer.json()["type"]) == (401, "error")
        assert answer.error["type"] == "authentication_error"


@in_loop
async def test_authorization_wins_over_x_api_key_and_a_repeated_header_is_refused(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        both = await front.ask(PATH, body(), headers={"x-api-key": "eh-wrong"})
        twice = front.opened(PATH, body(), key=None, headers={"x-api-key": KEY})
        twice.scope["headers"].append((b"x-api-key", b"eh-wrong"))
        answer = await twice.run()
    assert both.status == 200
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")


@in_loop
async def test_calls_of_the_beta_client_are_answered(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        assert (await front.ask(PATH, body(), query="beta=true")).status == 200
        assert (await front.ask(PATH, body(), query="key=1")).status == 400


@in_loop
async def test_a_truncated_answer_has_stop_reason_max_tokens(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = spoken("Hel", finish="length")
        assert (await front.ask(PATH, body())).json()["stop_reason"] == "max_tokens"


@in_loop
async def test_max_tokens_beyond_the_context_is_reduced_to_the_remaining_context(tmp_path: Path) -> None:
    """Coding tools ask for 32,000 tokens always; Anthropic's server ends such an answer where the context ends."""
    async with running_gateway(tmp_path, context_tokens=400) as front:
        front.triton.script = spoken("Hel", finish="length")
        cut = (await front.ask(PATH, body(max_tokens=32_000))).json()
        allowed_tokens = front.triton.requests[-1].tensors["sampling_param_max_tokens"][0]
        streamed = events(await front.ask(PATH, body(max_tokens=32_000, stream=True)))
        front.triton.script = spoken("Hello")
        ended = (await front.ask(PATH, body(max_tokens=32_000))).json()
        too_long = await front.ask(PATH, body({"type": "text", "text": "word " * 500}))
    assert allowed_tokens == 400 - cut["usage"]["input_tokens"]
    assert (cut["stop_reason"], ended["stop_reason"]) == ("model_context_window_exceeded", "end_turn")
    assert streamed[-2]["delta"]["stop_reason"] == "model_context_window_exceeded"
    assert (too_long.status, "context" in too_long.error["message"]) == (400, True)


@in_loop
async def test_a_thread_is_refused_with_the_code_that_makes_clients_send_the_history(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body(thread={"id": "thread_1"}))
        assert not front.triton.requests
    assert (answer.status, answer.error["details"]["error_code"]) == (400, "thread_unsupported_request")


@in_loop
async def test_a_stream_that_breaks_ends_with_the_error(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = Script(error=(StatusCode.INTERNAL, "secret"), error_after=1)
        streamed = await front.ask(PATH, body(stream=True))
        front.triton.script = Script(error=(StatusCode.UNAVAILABLE, "exceeds maximum queue size"))
        full = await front.ask(PATH, body(stream=True))
    assert streamed.body.decode().split("event: ")[-1].startswith("error\n")
    assert events(streamed)[-1]["error"]["type"] == "api_error" and b"secret" not in streamed.body
    assert (full.status, full.error["type"], full.headers["retry-after"]) == (503, "overloaded_error", "1")


@in_loop
async def test_a_client_enables_and_disables_thinking(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        await front.ask(PATH, body(thinking={"type": "disabled"}))
        assert prompt_of(front).endswith("<think>\n\n</think>\n\n")
        await front.ask(PATH, body(thinking={"type": "enabled", "budget_tokens": 1024}))
        assert prompt_of(front).endswith("assistant\n")


@in_loop
async def test_a_required_tool_call_keeps_its_schema(tmp_path: Path) -> None:
    choice = {"type": "tool", "name": "add", "disable_parallel_tool_use": True}
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken('{"a": 1}')
        answer = (await front.ask(PATH, body(tools=[ADD], tool_choice=choice))).json()
        tensors = front.triton.requests[-1].tensors
    assert json.loads(tensors["guided_decoding_guide"][0]) == ADD["input_schema"]
    assert (answer["content"][0]["input"], answer["stop_reason"]) == ({"a": 1}, "tool_use")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", ["1e999", "NaN", r'"\ud800"', "[" * 400 + "]" * 400])
@in_loop
async def test_arguments_that_no_client_reads_are_none(number: str, stream: bool, tmp_path: Path) -> None:
    """A tenant's schema can ask a model for 1e999, which became a 500 of the gateway and its alert."""
    choice = {"type": "tool", "name": "add"}
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(f'{{"a": {number}}}')
        answer = await front.ask(PATH, body(tools=[ADD], tool_choice=choice, stream=stream))
        again = await front.ask(PATH, body())
    assert (answer.status, again.status) == (200, 200)
    if not stream:
        assert answer.json()["content"][0]["input"] == {}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (body(IMAGE), ("`messages[0].content[0].type`", "reads text only")),
        (
            body({"type": "tool_result", "tool_use_id": "c1", "content": [IMAGE]}),
            ("content[0].type", "reads text only"),
        ),
        (
            body({"type": "tool_result", "tool_use_id": "c9"}),
            ("`messages[0].content[0].tool_use_id`", "an earlier message"),
        ),
        (body(tools=[{"type": "web_search_20250305", "name": "web_search"}]), ("`tools[0].type`", "input_schema")),
        (body(tools=[ADD | {"name": "a b"}]), ("`tools[0].name`", "letters")),
        (body(tools=[ADD | {"input_schema": 1}]), ("`tools[0].input_schema`", "schema")),
        (body(temperatur=1), ("`temperatur`", "unknown field")),
        (body(max_tokens=0), ("`max_tokens`", "whole number")),
        (body(stop_sequences=[""]), ("`stop_sequences`", "none of them empty")),
        (body(mcp_servers=[{}]), ("`mcp_servers`", "no other servers")),
        (body() | {"messages": [{"role": "assistant", "content": "So"}]}, ("`messages`", "cannot continue one")),
        (
            body() | {"messages": [{"role": "assistant", "content": [SEARCH]}, {"role": "user", "content": "So?"}]},
            ("`messages[0].content[0].type`", "runs no tools"),
        ),
    ],
)
def test_a_refusal_names_the_clients_own_field(tmp_path: Path, sent: Any, words: tuple[str, str]) -> None:
    @in_loop
    async def ask() -> None:
        async with running_gateway(tmp_path) as front:
            answer = await front.ask(PATH, sent)
            assert (answer.status, answer.error["type"]) == (400, "invalid_request_error"), answer.body
            assert all(word in answer.error["message"] for word in words), answer.body

    ask()


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "D"}},
            "T\nD",
        ),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "D"}]}}, "D"),
        (
            {"type": "search_result", "source": "S", "title": "T", "content": [{"type": "text", "text": "D"}]},
            "T\nS\nD",
        ),
    ],
)
@in_loop
async def test_a_text_document_is_read_also_as_a_tools_result(tmp_path: Path, block: dict[str, Any], text: str) -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [block]}]}
    cited = {"role": "user", "content": [block | {"citations": {"enabled": True}}]}
    async with running_gateway(tmp_path) as front:
        for messages in ([{"role": "user", "content": [block]}], [{"role": "user", "content": "q"}, call, result]):
            answer = await front.ask("/v1/messages", {"model": "llama", "max_tokens": 9, "messages": messages})
            assert (answer.status, f"\n{text}<|im_end|>" in prompt_of(front)) == (200, True), answer.body
        refused = await front.ask("/v1/messages", {"model": "llama", "max_tokens": 9, "messages": [cited]})
        pdf = body({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}})
        scanned = await front.ask("/v1/messages", pdf)
    assert (refused.status, "citations are not supported" in refused.error["message"]) == (400, True)
    assert "`messages[0].content[0].source.type`: this model reads text only" in scanned.error["message"]
