"""The gateway's answers beside recorded answers of OpenAI's and Anthropic's own servers from their SDKs' tests.

The gateway gets the request of each exchange, if it was recorded, and the model writes the recorded answer. Then the
gateway's answer must contain every recorded event in its place and every field with the same type. The tables below
name the fields that this server does not send, and the answers that models do not write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import httpx
import pytest

from tests.clients.calling import says, stack_of
from tests.clients.conftest import Stack
from tests.clients.recorded import (
    Exchange,
    Json,
    anthropic_exchanges,
    anthropic_streams,
    events_of,
    lacks,
    openai_answers,
)

HELLO = [{"role": "user", "content": "hello"}]
NOT_OURS = {
    "caller": "says that the model called the tool itself, and not a program of Anthropic's",
    "service_tier": "there is one",
    "inference_geo": "the hosts are where the operator has them",
    "cache_creation": "a split of cache_creation_input_tokens by times to live that a caller pays for",
    "stop_details": "null but for a refusal of Anthropic's own classifiers",
    "context_management": "null unless the server cut the conversation",
    "request_id": "in the header x-request-id",
    "verbosity": "the model has no such setting",
}
"""Fields of recorded answers that ours lack. The SDKs declare each as optional."""
DEFAULTS = ("temperature: number, and ours is null", "top_p: number, and ours is null")
"""Fields in which OpenAI's server repeats its default. Ours are null: generation_config.json gives the engine the
model's own."""
REFUSED = {
    "server_tool_use": "runs no tools",
    "web_search_20250305": "no built-in tools",
}
"""Parts of an exchange's request that only Anthropic runs, and the words of the refusal."""
NOT_REPLAYED = {
    "compaction": "Anthropic's server shortens the conversation",
    "fallback": "another model of Anthropic's answers on",
    "fallback_credit": "another model of Anthropic's answers on",
    "incomplete_partial_json": "the recording breaks off inside of a call",
    "input_transformations_delta": "Anthropic's server changes the input",
    "input_transformations_empty_delta": "Anthropic's server changes the input",
    "input_transformations_start_only": "Anthropic's server changes the input",
    "message_delta_fields": "counts of containers and tools that Anthropic runs",
    "refusal": "Anthropic's classifier refuses",
    "server_tool_use": "Anthropic's server searches the web",
    "tool_use_invalid_json": "arguments that are no JSON are no call here, but text",
    "unknown_events": "made up, with events that do not exist",
}
STREAMS = {exchange.name: exchange for exchange in anthropic_streams()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yields a stack whose model has room for the recorded requests."""
    with stack_of(tmp_path_factory.mktemp("recorded"), context_tokens=60_000) as stack:
        yield stack


@pytest.mark.parametrize("exchange", list(anthropic_exchanges()), ids=lambda exchange: exchange.name)
def test_a_recorded_request_of_anthropics_sdk_gets_an_answer_like_the_recorded_one(
    stack: Stack, exchange: Exchange
) -> None:
    content = content_of(exchange)
    foreign = foreign_to(exchange.request)
    says(stack, *written(content))
    answer = answer_of(stack, "/v1/messages", exchange.request)
    if foreign:
        assert answer.status_code == 400 and REFUSED[foreign] in answer.json()["error"]["message"]
    # The recorded error is a rate limit, which the gateway under test does not reach.
    elif exchange.answer.get("type") == "error":
        assert set(answer_to_nobody(stack)) | {"request_id"} == set(exchange.answer)
    elif exchange.events:
        compare(exchange.events, list(events_of(answer.text)))
    elif any(block["type"] == "server_tool_use" for block in content):
        assert answer.json()["stop_reason"] == "tool_use"
    else:
        assert unlike(exchange.answer, answer.json()) == []


def test_every_recorded_stream_is_replayed_or_has_a_reason() -> None:
    """This test notices recordings that a newer SDK adds."""
    assert set(NOT_REPLAYED) < set(STREAMS)


@pytest.mark.parametrize("name", sorted(set(STREAMS) - set(NOT_REPLAYED)))
def test_a_stream_has_the_events_of_the_recorded_one(stack: Stack, name: str) -> None:
    content = content_of(STREAMS[name])
    says(stack, *written(content))
    tools = [{"name": block["name"], "input_schema": {}} for block in content if block["type"] == "tool_use"]
    body = {"max_tokens": 500, "messages": HELLO, "stream": True} | ({"tools": tools} if tools else {})
    compare(STREAMS[name].events, list(events_of(answer_of(stack, "/v1/messages", body).text)))


@pytest.mark.parametrize("exchange", list(openai_answers()), ids=lambda exchange: exchange.name)
def test_an_answer_has_the_fields_of_the_one_that_openais_server_gave(stack: Stack, exchange: Exchange) -> None:
    if exchange.answer["object"] == "response":
        (item,) = exchange.answer["output"]
        says(stack, item["content"][0]["text"])
        answer = answer_of(stack, "/v1/responses", {"input": "hello"})
    else:
        choices = exchange.answer["choices"]
        message = choices[0]["message"]
        if message["refusal"]:  # OpenAI's models refuse in a field of its own, others in the content
            message |= {"content": message["refusal"], "refusal": None}
        calls = [call["function"] for call in message.get("tool_calls") or []]
        texts = [tool_call(call["name"], json.loads(call["arguments"])) for call in calls]
        says(stack, message["content"] or "", *texts, finish=choices[0]["finish_reason"].replace("tool_calls", "stop"))
        tools = [{"type": "function", "function": {"name": call["name"]}} for call in calls]
        more = {"tools": tools} if tools else {}
        answer = answer_of(stack, "/v1/chat/completions", {"messages": HELLO, "n": len(choices)} | more)
    assert unlike(exchange.answer, answer.json()) == []


def answer_of(stack: Stack, path: str, body: Json) -> httpx.Response:
    """Returns the answer to a request from a client without a library."""
    headers = {"authorization": f"Bearer {stack.key}", "anthropic-version": "2023-06-01"}
    return httpx.post(f"{stack.url}{path}", json=body | {"model": "llama"}, headers=headers, timeout=300)


def answer_to_nobody(stack: Stack) -> Json:
    """Returns Anthropic's shape of an error."""
    answer: Json = httpx.post(f"{stack.url}/v1/messages", json={}, timeout=300).json()
    return answer


def foreign_to(request: Json) -> str:
    """Returns the type of a tool or block in the request that only Anthropic's server runs or writes; "" if none."""
    kinds = [tool.get("type", "") for tool in request.get("tools", ())]
    contents = [message["content"] for message in request["messages"]]
    kinds += [block["type"] for content in contents if isinstance(content, list) for block in content]
    return next((kind for kind in kinds if kind in REFUSED), "")


def content_of(exchange: Exchange) -> list[Json]:
    """Returns the blocks of a recorded message, joined from a stream's deltas."""
    blocks: list[Json] = [dict(block) for block in exchange.answer.get("content", ())]
    arguments: dict[int, str] = {}
    for event in exchange.events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            blocks[-1]["text"] += event["delta"]["text"]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            arguments[len(blocks) - 1] = arguments.get(len(blocks) - 1, "") + event["delta"]["partial_json"]
    for number, text in arguments.items():
        blocks[number]["input"] = json.loads(text)
    return blocks


def written(content: Sequence[Json]) -> Iterator[str]:
    """Yields the pieces in which the model writes these blocks."""
    for block in content:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_use":
            yield tool_call(block["name"], block["input"])


def tool_call(name: str, arguments: Any) -> str:
    """Returns a call in the model's notation."""
    return f"\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def compare(recorded: Sequence[Json], ours: Sequence[Json]) -> None:
    """Compares the first event of each run of equal types; ignores pings."""
    theirs, mine = first_of_each(recorded), first_of_each(ours)
    assert [event["type"] for event in mine] == [event["type"] for event in theirs]
    assert [unlike(*pair) for pair in zip(theirs, mine, strict=True)] == [[]] * len(theirs)


def first_of_each(events: Sequence[Json]) -> list[Json]:
    """Returns the first event of each run of equal types."""
    counted = [event for event in events if event["type"] != "ping"]
    return [next(run) for _, run in groupby(counted, key=lambda event: event["type"])]


def unlike(recorded: Any, ours: Any) -> list[str]:
    """Returns the paths that our answer lacks, except fields that this server does not send."""
    paths = lacks(recorded, ours)
    return [path for path in paths if path.rpartition(".")[2] not in NOT_OURS and path not in DEFAULTS]
