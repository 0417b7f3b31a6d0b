"""crewai: a crew of one agent, without and with a tool."""

from typing import Any

from calling import KEY, V1, add, added, run
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

model = LLM(model="openai/llama", base_url=V1, api_key=KEY)


def crew(**more: Any) -> str:
    agent: Any = Agent(role="clerk", goal="greet", backstory="new", llm=model, **more)
    task: Any = Task(description="hello", expected_output="a text", agent=agent)
    return str(Crew(agents=[agent], tasks=[task]).kickoff())


def with_tool() -> Any:
    answer = crew(tools=[tool("add")(add)])
    return [*added, answer]


run(chat=crew, tool=with_tool)
