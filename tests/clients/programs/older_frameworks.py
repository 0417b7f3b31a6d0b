"""any-llm, camel, instructor, llama-index, mirascope, semantic-kernel and strands, which need openai 2."""

from typing import Any

import pydantic
from calling import HELLO, KEY, KINDS, URL, V1, add, added, run


class Answer(pydantic.BaseModel):
    a: int


def any_llm_chat() -> Any:
    import any_llm

    answer: Any = any_llm.completion(model="openai:llama", messages=HELLO, api_base=V1, api_key=KEY)
    return answer.choices[0].message.content


def any_llm_stream() -> list[str]:
    import any_llm

    events: Any = any_llm.completion(model="openai:llama", messages=HELLO, api_base=V1, api_key=KEY, stream=True)
    return [event.choices[0].delta.content for event in events if event.choices and event.choices[0].delta.content]


def any_llm_responses() -> Any:
    import any_llm

    answer: Any = any_llm.responses(model="openai:llama", input_data="hello", api_base=V1, api_key=KEY)
    return answer.output_text


def camel_agent(**more: Any) -> Any:
    """An agent with a stand-in for CAMEL's token counter, which it would download."""
    from camel.agents import ChatAgent
    from camel.models import ModelFactory
    from camel.types import ModelPlatformType
    from camel.utils import BaseTokenCounter

    class Words(BaseTokenCounter):
        def count_tokens_from_messages(self, messages: Any) -> int:
            return len(str(messages).split())

        def encode(self, text: str) -> Any:
            return text.split()

        def decode(self, token_ids: Any) -> str:
            return " ".join(token_ids)

    platform = ModelPlatformType.OPENAI_COMPATIBLE_MODEL
    shared: Any = {"model_platform": platform, "model_type": "llama", "url": V1, "api_key": KEY}
    model: Any = ModelFactory.create(token_counter=Words(), **shared)
    return ChatAgent("Be brief.", model=model, **more)


def camel_chat() -> Any:
    return camel_agent().step("hello").msgs[0].content


def camel_tool() -> Any:
    from camel.toolkits import FunctionTool

    answer = camel_agent(tools=[FunctionTool(add)]).step("hello").msgs[0].content
    return [*added, answer]


def instructor_schema() -> Any:
    import instructor
    import openai

    client: Any = instructor.from_openai(openai.OpenAI(base_url=V1, api_key=KEY))
    return client.chat.completions.create(model="llama", messages=HELLO, response_model=Answer).model_dump()


def instructor_json_schema() -> Any:
    import instructor
    import openai

    client: Any = instructor.from_openai(openai.OpenAI(base_url=V1, api_key=KEY), mode=instructor.Mode.JSON_SCHEMA)
    return client.chat.completions.create(model="llama", messages=HELLO, response_model=Answer).model_dump()


def llama_index_model() -> Any:
    from llama_index.llms.openai_like import OpenAILike

    known: Any = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 60_000}
    return OpenAILike(model="llama", api_base=V1, api_key=KEY, **known)


def llama_index_chat() -> Any:
    return llama_index_model().complete("hello").text


def llama_index_stream() -> list[str]:
    return [event.delta for event in llama_index_model().stream_complete("hello") if event.delta]


async def llama_index_tool() -> Any:
    from llama_index.core.agent.workflow import FunctionAgent

    answer = await FunctionAgent(tools=[add], llm=llama_index_model(), streaming=False).run("hello")
    return [*added, str(answer)]


def mirascope_model() -> Any:
    from mirascope import llm

    llm.register_provider("openai:completions", scope="openai/", base_url=V1, api_key=KEY)
    return llm.Model("openai/llama")


def mirascope_chat() -> Any:
    return mirascope_model().call("hello").text()


def mirascope_stream() -> list[str]:
    return [piece for piece in mirascope_model().stream("hello").text_stream() if piece.strip("\n")]


def mirascope_tool() -> Any:
    from mirascope import llm

    first = mirascope_model().call("hello", tools=[llm.tool(add)])
    answer = first.resume(first.execute_tools()).text()
    return [*added, answer]


def kernel_service() -> Any:
    import openai
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion

    return OpenAIChatCompletion(ai_model_id="llama", async_client=openai.AsyncOpenAI(base_url=V1, api_key=KEY))


async def kernel_chat() -> Any:
    from semantic_kernel.agents import ChatCompletionAgent

    response = await ChatCompletionAgent(service=kernel_service(), name="a").get_response("hello")
    return str(response.message.content)


async def kernel_stream() -> list[str]:
    from semantic_kernel.agents import ChatCompletionAgent

    events = ChatCompletionAgent(service=kernel_service(), name="a").invoke_stream("hello")
    return [str(event.message.content) async for event in events if str(event.message.content)]


async def kernel_tool() -> Any:
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.functions import kernel_function

    class Plugin:
        @kernel_function(name="add", description="Adds.")
        def add(self, a: int) -> str:
            return add(a)

    agent = ChatCompletionAgent(service=kernel_service(), name="a", plugins=[Plugin()])
    response = await agent.get_response("hello")
    return [*added, str(response.message.content)]


def strands_model() -> Any:
    from strands.models.openai import OpenAIModel

    return OpenAIModel(client_args={"base_url": V1, "api_key": KEY}, model_id="llama")


def strands_chat() -> Any:
    from strands import Agent

    return str(Agent(model=strands_model(), callback_handler=None)("hello")).strip()


def strands_tool() -> Any:
    from strands import Agent, tool

    answer = str(Agent(model=strands_model(), tools=[tool(add)], callback_handler=None)("hello")).strip()
    return [*added, answer]


def strands_anthropic_chat() -> Any:
    from strands import Agent
    from strands.models.anthropic import AnthropicModel

    model = AnthropicModel(client_args={"base_url": URL, "api_key": KEY}, model_id="llama", max_tokens=500)
    return str(Agent(model=model, callback_handler=None)("hello")).strip()


run(**{name: call for name, call in list(globals().items()) if name.rsplit("_", 1)[-1] in KINDS})
