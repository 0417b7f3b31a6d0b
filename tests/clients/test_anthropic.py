"""Anthropic's own client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.calling import ADD, WRITTEN, calling, says
from tests.clients.conftest import Stack

anthropic = pytest.importorskip("anthropic")
__all__ = ["calling"]
TOOL: Any = {"name": "add", "input_schema": ADD}
HELLO: Any = {"model": "llama", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def client(calling: Stack) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=calling.url, api_key=calling.key, max_retries=0) as client:
        yield client


def test_a_message_has_text_and_usage(calling: Stack, client: Any) -> None:
    says(calling, "Hello ", "wörld")
    message = client.messages.create(**HELLO, system="Be brief.", stop_sequences=["x"])
    assert [(block.type, block.text) for block in message.content] == [("text", "Hello wörld")]
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 9)


def test_the_clients_collector_of_a_stream_ends_with_every_block(calling: Stack, client: Any) -> None:
    says(calling, *WRITTEN)
    with client.messages.stream(**HELLO, tools=[TOOL]) as stream:
        assert "".join(stream.text_stream) == "Let me add."
        final = stream.get_final_message()
    thinking, text, call = final.content
    assert (thinking.thinking, text.text, call.name, call.input) == ("hm", "Let me add.", "add", {"a": 1})
    assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", 9)


def test_a_turn_with_a_tool_is_returned_as_the_client_sent_it(calling: Stack, client: Any) -> None:
    says(calling, WRITTEN)
    first = client.messages.create(**HELLO, tools=[TOOL], thinking={"type": "enabled", "budget_tokens": 1024})
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "2"}
    turn = [*HELLO["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    says(calling, "Two.")
    second = client.messages.create(**HELLO | {"messages": turn}, tools=[TOOL])
    assert second.content[0].text == "Two."


def test_the_clients_count_is_the_prompts_own(calling: Stack, client: Any) -> None:
    says(calling, "Two.")
    counted = client.messages.count_tokens(model="llama", messages=HELLO["messages"])
    assert counted.input_tokens == client.messages.create(**HELLO).usage.input_tokens


def test_the_beta_client_and_a_bearers_token_are_answered(calling: Stack) -> None:
    says(calling, "Two.")
    with anthropic.Anthropic(base_url=calling.url, auth_token=calling.key, max_retries=0) as client:
        assert client.beta.messages.create(**HELLO, betas=["x-2025-01-01"]).content[0].text == "Two."


def test_refusals_are_the_clients_own_exceptions(calling: Stack, client: Any) -> None:
    with pytest.raises(anthropic.BadRequestError, match="unknown field"):
        client.messages.create(**HELLO, extra_body={"temperatur": 1})
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**HELLO | {"model": "none"})
    with (
        anthropic.Anthropic(base_url=calling.url, api_key="eh-wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(**HELLO)


def test_a_stream_that_breaks_is_the_clients_own_exception(calling: Stack, client: Any) -> None:
    import grpc

    from tests.gateway.triton import Script

    calling.triton.script = Script(error=(grpc.StatusCode.INTERNAL, "broke"), error_after=1)
    with pytest.raises(anthropic.APIError), client.messages.stream(**HELLO) as stream:
        stream.until_done()
