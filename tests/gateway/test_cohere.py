"""Cohere's chat, vectors and tokens: the model's input, the events of an answer, and refused requests."""

import base64
import json
import struct
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.gateway.asking import in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_responses import WRITTEN, events
from tests.gateway.test_tools import ADD, TOOLS_TEMPLATE, prompt_of, running_gateway, spoken
from tests.gateway.triton import Script, vector

PATH = "/v2/chat"
TEXTS = ["a cat", "the dog", "mat", "four"]


def body(content: Any = "1?", **more: Any) -> dict[str, Any]:
    return {"model": "llama", "messages": [{"role": "user", "content": content}], **more}


def embedding(**more: Any) -> dict[str, Any]:
    return {"model": "nomic", "input_type": "search_query", "texts": TEXTS, **more}


@in_loop
async def test_a_message_is_answered_with_its_usage(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask(PATH, body(k=5, p=0.5, max_tokens=9))).json()
        tensors = front.triton.requests[-1].tensors
    assert (tensors["sampling_param_top_k"], tensors["sampling_param_top_p"]) == ([5], [0.5])
    assert answer["message"] == {"role": "assistant", "content": [{"type": "text", "text": "Hello wörld"}]}
    assert (answer["finish_reason"], answer["usage"]["tokens"]["output_tokens"]) == ("COMPLETE", 5)


@in_loop
async def test_a_stream_has_every_event_in_order(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = spoken(*WRITTEN)
        streamed = await front.ask(PATH, body(tools=[ADD], stream=True))
        whole = (await front.ask(PATH, body(tools=[ADD]))).json()
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    streamed.body = streamed.body.removesuffix(b"data: [DONE]\n\n")
    came = events(streamed)
    content, call = ("content-start", "content-delta", "content-end"), ("tool-call-start", "tool-call-delta")
    kinds = [kind for kind, _ in groupby(event["type"] for event in came)]
    assert kinds == ["message-start", *content, *content, *call, "tool-call-end", "message-end"]
    assert (came[-1]["delta"]["finish_reason"], came[-1]["delta"]["usage"]["tokens"]["output_tokens"]) == (
        "TOOL_CALL",
        9,
    )
    thinking, text = whole["message"]["content"]
    assert (thinking, text) == ({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me add."})
    assert json.loads(whole["message"]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}


@in_loop
async def test_a_turn_with_a_tool_is_shown_to_the_model(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    turn = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "tool_plan": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "document", "document": {"data": {"sum": 2}}}]},
    ]
    template = TOOLS_TEMPLATE.replace("{{ content }}", "({{ message.reasoning_content }}){{ content }}")
    async with plain_gateway(
        tmp_path, template=template, llm={"tool_parser": "hermes", "context_tokens": 2000}
    ) as front:
        answer = await front.ask(PATH, body() | {"messages": turn, "tools": [ADD]})
        prompt = prompt_of(front)
    assert answer.status == 200, answer.body
    turns = [text.split("<|im_end|>")[0] for text in prompt.split("<|im_start|>")[1:]]
    assert turns == ["user\n()1?", "assistant\n(hm)", 'tool\n(){"sum":2}', "assistant\n"]


@in_loop
async def test_a_stream_that_breaks_ends_with_an_error_at_the_messages_end(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        front.triton.script = Script(error=(StatusCode.INTERNAL, "secret"), error_after=1)
        streamed = await front.ask(PATH, body(stream=True))
    assert events(streamed)[-1]["delta"]["finish_reason"] == "ERROR" and b"secret" not in streamed.body


@in_loop
async def test_vectors_are_returned_in_the_requested_types(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask("/v2/embed", embedding(embedding_types=["float", "base64"]))).json()
        assert front.triton.requests[-1].parameters["task"] == "search_query"
        assert front.triton.requests[-1].parameters["truncate"] is True
        plain = (await front.ask("/v1/embed", embedding(truncate="NONE"))).json()
        assert front.triton.requests[-1].parameters["truncate"] is False
    vectors = [vector(text) for text in TEXTS]
    assert (answer["response_type"], answer["embeddings"]["float"], answer["texts"]) == (
        "embeddings_by_type",
        vectors,
        TEXTS,
    )
    assert [list(struct.unpack("4f", base64.b64decode(text))) for text in answer["embeddings"]["base64"]] == vectors
    assert (plain["response_type"], plain["embeddings"]) == ("embeddings_floats", vectors)
    assert plain["meta"]["billed_units"] == {"input_tokens": sum(len(text.split()) + 2 for text in TEXTS)}


@in_loop
async def test_inputs_made_of_parts_are_read_as_texts(tmp_path: Path) -> None:
    part = {"type": "text", "text": "a cat"}
    async with plain_gateway(tmp_path) as front:
        sent = {"model": "nomic", "input_type": "search_document", "inputs": [{"content": [part]}]}
        assert (await front.ask("/v2/embed", sent)).json()["embeddings"] == {"float": [vector("a cat")]}


@in_loop
async def test_a_text_is_tokenized_and_detokenized_unchanged(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        tokens = (await front.ask("/v1/tokenize", {"model": "llama", "text": "the cät"})).json()
        back = (await front.ask("/v1/detokenize", {"model": "llama", "tokens": tokens["tokens"]})).json()
        assert not front.triton.requests
    assert back["text"] == "the cät" and len(tokens["tokens"]) == len(tokens["token_strings"])
    assert tokens["token_strings"][0] == "<|bos|>"


@pytest.mark.parametrize(
    ("path", "sent", "param", "words"),
    [
        (PATH, body([{"type": "image_url", "image_url": {"url": "x"}}]), "messages[0].content[0].type", "text only"),
        (PATH, body(documents=["a"]), "documents", "write the document into a message"),
        (PATH, body(stop_sequences=[""]), "stop_sequences", "none of them empty"),
        (PATH, body(p=2), "p", "number"),
        (PATH, body(temperatur=1), "temperatur", "unknown field"),
        ("/v2/embed", embedding(images=["x"]), "images", "text only"),
        ("/v2/embed", embedding(embedding_types=["int8"]), "embedding_types", "float and base64"),
        ("/v2/embed", embedding(truncate="START"), "truncate", "at their end"),
        ("/v2/embed", {"model": "nomic", "texts": ["a"]}, "input_type", "missing"),
        ("/v1/detokenize", {"model": "llama", "tokens": [99999]}, "tokens", "ids from 0"),
    ],
)
def test_a_refusal_names_the_clients_own_field(tmp_path: Path, path: str, sent: Any, param: str, words: str) -> None:
    @in_loop
    async def ask() -> None:
        async with plain_gateway(tmp_path) as front:
            answer = await front.ask(path, sent)
            assert (answer.status, answer.error["param"]) == (400, param), answer.body
            assert words in answer.json()["message"]

    ask()
