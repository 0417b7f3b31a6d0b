"""agno, autogen, dspy, griptape, haystack and llm."""

from typing import Any

import pydantic
from calling import KEY, KINDS, PARAMETERS, TEXTS, V1, add, added, run


class Answer(pydantic.BaseModel):
    a: int


def agno(**more: Any) -> Any:
    from agno.agent import Agent
    from agno.models.openai.like import OpenAILike

    return Agent(model=OpenAILike(id="llama", base_url=V1, api_key=KEY), telemetry=False, **more)


def agno_chat() -> Any:
    return agno().run("hello").content


def agno_stream() -> list[str]:
    return [event.content for event in agno().run("hello", stream=True) if getattr(event, "content", None)]


def agno_tool() -> Any:
    answer = agno(tools=[add]).run("hello").content
    return [*added, answer]


def agno_schema() -> Any:
    return agno(output_schema=Answer).run("hello").content.model_dump()


def autogen(**more: Any) -> Any:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.models import ModelFamily, ModelInfo
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    info = ModelInfo(
        vision=False, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=True
    )
    client = OpenAIChatCompletionClient(model="llama", base_url=V1, api_key=KEY, model_info=info)
    return AssistantAgent("a", model_client=client, **more)


async def autogen_chat() -> Any:
    return (await autogen().run(task="hello")).messages[-1].content


async def autogen_stream() -> list[str]:
    events = autogen(model_client_stream=True).run_stream(task="hello")
    return [event.content async for event in events if type(event).__name__ == "ModelClientStreamingChunkEvent"]


async def autogen_tool() -> Any:
    result = await autogen(tools=[add], reflect_on_tool_use=True).run(task="hello")
    return [*added, result.messages[-1].content]


def dspy_chat() -> Any:
    import dspy

    dspy.configure(lm=dspy.LM("openai/llama", api_base=V1, api_key=KEY, cache=False))
    return dspy.Predict("question -> answer")(question="hello").answer


def griptape_chat() -> Any:
    from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
    from griptape.structures import Agent

    driver = OpenAiChatPromptDriver(model="llama", base_url=V1, api_key=KEY, max_attempts=1)
    return Agent(prompt_driver=driver).run("hello").output.value


def haystack() -> Any:
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.utils import Secret

    return OpenAIChatGenerator(model="llama", api_base_url=V1, api_key=Secret.from_token(KEY))


def haystack_chat() -> Any:
    from haystack.dataclasses import ChatMessage

    return haystack().run(messages=[ChatMessage.from_user("hello")])["replies"][0].text


def haystack_tool() -> Any:
    from haystack.components.agents import Agent
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool

    tool = Tool(name="add", description="Adds.", parameters=PARAMETERS, function=add)
    answer = Agent(chat_generator=haystack(), tools=[tool]).run(messages=[ChatMessage.from_user("hello")])
    return [*added, answer["messages"][-1].text]


def haystack_vectors() -> Any:
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret

    embedder: Any = OpenAITextEmbedder(model="nomic", api_base_url=V1, api_key=Secret.from_token(KEY))
    return [embedder.run(text)["embedding"] for text in TEXTS]


def llm_chat() -> Any:
    from llm.default_plugins.openai_models import Chat

    return Chat("a", model_name="llama", api_base=V1, key=KEY).prompt("hello", key=KEY).text()


run(**{name: call for name, call in list(globals().items()) if name.rsplit("_", 1)[-1] in KINDS})
