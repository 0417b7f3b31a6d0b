"""OpenAI's own client uses Responses, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from tests.clients.calling import ADD, WRITTEN, calling, says
from tests.clients.conftest import Stack

__all__ = ["calling"]
TOOL: Any = {"type": "function", "name": "add", "parameters": ADD, "strict": True}


class Answer(pydantic.BaseModel):
    a: int


@pytest.fixture
def client(calling: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{calling.url}/v1", api_key=calling.key, max_retries=0) as client:
        yield client


def test_a_response_has_text_and_usage(calling: Stack, client: openai.OpenAI) -> None:
    says(calling, "Hello ", "wörld")
    response = client.responses.create(model="llama", input="hello", instructions="Be brief.", store=False)
    assert response.output_text == "Hello wörld"
    assert response.usage is not None and response.usage.output_tokens == 9
    assert (response.status, response.error) == ("completed", None)


def test_the_clients_collector_of_a_stream_ends_with_every_item(calling: Stack, client: openai.OpenAI) -> None:
    says(calling, *WRITTEN)
    with client.responses.stream(model="llama", input="1?", tools=[TOOL]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert {"response.created", "response.reasoning_text.delta", "response.output_text.delta"} < kinds
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    call: Any = final.output[2]
    assert (call.name, call.parsed_arguments) == ("add", {"a": 1})


def test_a_turn_with_a_tool_is_returned_as_the_client_sent_it(calling: Stack, client: openai.OpenAI) -> None:
    says(calling, WRITTEN)
    conversation: list[Any] = [{"role": "user", "content": "1?"}]
    first = client.responses.create(model="llama", input=conversation, tools=[TOOL])
    call: Any = first.output[-1]
    conversation += first.output
    conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": "2"})
    says(calling, "Two.")
    second = client.responses.create(model="llama", input=conversation, tools=[TOOL])
    assert second.output_text == "Two."


def test_a_parsed_response_is_the_clients_own_object(calling: Stack, client: openai.OpenAI) -> None:
    says(calling, '{"a": 1}')
    response = client.responses.parse(model="llama", input="1?", text_format=Answer)
    assert response.output_parsed == Answer(a=1)


def test_a_cut_response_is_incomplete(calling: Stack, client: openai.OpenAI) -> None:
    says(calling, "Hel", finish="length")
    response = client.responses.create(model="llama", input="hello", max_output_tokens=9)
    assert response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"


def test_a_field_that_needs_storage_is_the_clients_own_exception(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="stores no responses"):
        client.responses.create(model="llama", input="hello", previous_response_id="resp_1")
