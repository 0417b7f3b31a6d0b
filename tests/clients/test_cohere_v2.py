"""Cohere's own client, unmodified: chats, vectors and tokens; test_cohere.py covers its reranker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cohere
import pytest

from tests.clients.calling import ADD, WRITTEN, calling, says
from tests.clients.conftest import Stack
from tests.gateway.triton import vector

__all__ = ["calling"]
TOOL: Any = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD}}
HELLO: Any = [{"role": "user", "content": "hello"}]
TEXTS = ["the cat", "a mat"]


@pytest.fixture
def client(calling: Stack) -> Iterator[Any]:
    with cohere.ClientV2(calling.key, base_url=calling.url) as client:
        yield client


def test_a_message_has_text_and_usage(calling: Stack, client: Any) -> None:
    says(calling, "Hello ", "wörld")
    answer = client.chat(model="llama", messages=HELLO, max_tokens=50, k=0)
    assert [part.text for part in answer.message.content] == ["Hello wörld"]
    assert (answer.finish_reason, answer.usage.tokens.output_tokens) == ("COMPLETE", 9)


def test_a_stream_has_thought_text_call_and_end(calling: Stack, client: Any) -> None:
    says(calling, *WRITTEN)
    events = list(client.chat_stream(model="llama", messages=HELLO, tools=[TOOL]))
    parts = [event.delta.message.content for event in events if event.type == "content-delta"]
    assert "".join(part.thinking or "" for part in parts) == "hm"
    assert "".join(part.text or "" for part in parts) == "Let me add."
    (start,) = [event for event in events if event.type == "tool-call-start"]
    assert start.delta.message.tool_calls.function.name == "add"
    assert (events[0].type, events[-1].type) == ("message-start", "message-end")
    assert events[-1].delta.finish_reason == "TOOL_CALL"


def test_a_turn_with_a_tool_is_returned_as_the_client_sent_it(calling: Stack, client: Any) -> None:
    says(calling, WRITTEN)
    first = client.chat(model="llama", messages=HELLO, tools=[TOOL]).message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "2"}
    says(calling, "Two.")
    second = client.chat(model="llama", messages=[*HELLO, first, result], tools=[TOOL])
    assert second.message.content[0].text == "Two."


def test_vectors_are_the_models(calling: Stack, client: Any) -> None:
    answer = client.embed(model="nomic", input_type="search_document", texts=TEXTS, embedding_types=["float"])
    assert answer.embeddings.float_ == [vector(text) for text in TEXTS]
    with cohere.Client(calling.key, base_url=calling.url) as first_version:
        plain: Any = first_version.embed(model="nomic", input_type="search_document", texts=TEXTS)
    assert plain.embeddings == [vector(text) for text in TEXTS]


def test_a_text_is_tokenized_and_detokenized_unchanged(calling: Stack) -> None:
    with cohere.Client(calling.key, base_url=calling.url) as client:
        tokens = client.tokenize(text="the cat", model="llama", offline=False)
        assert client.detokenize(tokens=tokens.tokens, model="llama", offline=False).text == "the cat"


def test_an_image_is_the_clients_own_exception(client: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(cohere.BadRequestError):
        client.chat(model="llama", messages=[{"role": "user", "content": [image]}])
