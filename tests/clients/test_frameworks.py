"""Agent frameworks, unmodified: the default call with a tool, and the turn after it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.conftest import House


def test_langchain_chats_with_what_the_model_answered_before(house: House) -> None:
    langchain = pytest.importorskip("langchain_openai")
    chat = langchain.ChatOpenAI(model="llama", base_url=f"{house.url}/v1", api_key=house.key)
    first = chat.invoke("hello")
    second: Any = chat.invoke([("user", "hello"), first, ("user", "again")])
    assert (first.content, second.content) == ("Hello wörld", "Hello wörld")


def test_openai_agents_runs_a_turn(house: House) -> None:
    agents: Any = pytest.importorskip("agents")
    openai: Any = pytest.importorskip("openai")

    async def text() -> str:
        async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key=house.key) as client:
            model = agents.OpenAIChatCompletionsModel(model="llama", openai_client=client)
            agents.set_tracing_disabled(True)
            result = await agents.Runner.run(agents.Agent(name="a", model=model), "hello")
            return str(result.final_output)

    assert asyncio.run(text()) == "Hello wörld"


def test_pydantic_ai_takes_a_second_turn(house: House) -> None:
    ai: Any = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def texts() -> list[str]:
        provider = OpenAIProvider(base_url=f"{house.url}/v1", api_key=house.key)
        agent = ai.Agent(OpenAIChatModel("llama", provider=provider))
        first = await agent.run("hello")
        second = await agent.run("again", message_history=first.all_messages())
        return [str(first.output), str(second.output)]

    assert asyncio.run(texts()) == ["Hello wörld", "Hello wörld"]


def test_azures_client_asks_a_deployment(house: House) -> None:
    openai: Any = pytest.importorskip("openai")
    with openai.AzureOpenAI(azure_endpoint=house.url, api_key=house.key, api_version="2025-01-01") as client:
        messages: Any = [{"role": "user", "content": "hello"}]
        answer = client.chat.completions.create(model="llama", messages=messages)
    assert answer.choices[0].message.content == "Hello wörld"
