"""pydantic-ai: agents over OpenAI's chats and Responses and over Anthropic's messages."""

from typing import Any

import pydantic
from calling import KEY, URL, V1, add, added, run
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Answer(pydantic.BaseModel):
    a: int


def old() -> Any:
    return OpenAIChatModel("llama", provider=OpenAIProvider(base_url=V1, api_key=KEY))


def new() -> Any:
    return OpenAIResponsesModel("llama", provider=OpenAIProvider(base_url=V1, api_key=KEY))


def claude() -> Any:
    return AnthropicModel("llama", provider=AnthropicProvider(base_url=URL, api_key=KEY))


async def text(model: Any) -> Any:
    agent = Agent(model)
    first = await agent.run("hello")
    return (await agent.run("again", message_history=first.all_messages())).output


async def turn(model: Any) -> Any:
    agent = Agent(model)
    agent.tool_plain(add)
    result = await agent.run("hello")
    return [*added, result.output]


async def stream() -> list[str]:
    async with Agent(old()).run_stream("hello") as events:
        return [piece async for piece in events.stream_text(delta=True, debounce_by=None)]


async def schema() -> Any:
    from pydantic_ai import NativeOutput

    return (await Agent(old(), output_type=NativeOutput(Answer)).run("hello")).output.model_dump()


run(
    chat=lambda: text(old()),
    stream=stream,
    tool=lambda: turn(old()),
    schema=schema,
    responses=lambda: text(new()),
    responses_tool=lambda: turn(new()),
    anthropic_chat=lambda: text(claude()),
    anthropic_tool=lambda: turn(claude()),
)
