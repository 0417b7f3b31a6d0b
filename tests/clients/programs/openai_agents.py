"""openai-agents: a turn, a stream and a tool, by chats and by Responses."""

from typing import Any

import agents
import openai
import pydantic
from calling import KEY, V1, add, added, run

agents.set_tracing_disabled(True)


class Answer(pydantic.BaseModel):
    a: int


def agent(is_new: bool, **more: Any) -> Any:
    kind: Any = agents.OpenAIResponsesModel if is_new else agents.OpenAIChatCompletionsModel
    client = openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return agents.Agent(name="a", model=kind(model="llama", openai_client=client), **more)


async def chat() -> Any:
    return (await agents.Runner.run(agent(False), "hello")).final_output


async def stream() -> list[str]:
    events = agents.Runner.run_streamed(agent(False), "hello").stream_events()
    data_of = [event.data async for event in events if event.type == "raw_response_event"]
    return [data.delta for data in data_of if data.type == "response.output_text.delta"]


async def tool() -> Any:
    result = await agents.Runner.run(agent(False, tools=[agents.function_tool(add)]), "hello")
    return [*added, result.final_output]


async def schema() -> Any:
    return (await agents.Runner.run(agent(False, output_type=Answer), "hello")).final_output.model_dump()


async def responses() -> Any:
    return (await agents.Runner.run(agent(True), "hello")).final_output


async def responses_tool() -> Any:
    result = await agents.Runner.run(agent(True, tools=[agents.function_tool(add)]), "hello")
    return [*added, result.final_output]


run(chat=chat, stream=stream, tool=tool, schema=schema, responses=responses, responses_tool=responses_tool)
