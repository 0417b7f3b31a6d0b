"""langchain-anthropic, langchain-cohere and langgraph."""

from typing import Any

import pydantic
from calling import DOCUMENTS, KEY, QUERY, TEXTS, URL, V1, add, added, run
from langchain_anthropic import ChatAnthropic
from langchain_cohere import ChatCohere, CohereEmbeddings, CohereRerank
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI

more: Any = {"model": "llama", "base_url": URL, "max_retries": 0}
claude: Any = ChatAnthropic(api_key=KEY, **more)
command: Any = ChatCohere(model="llama", base_url=URL, cohere_api_key=KEY)


class Answer(pydantic.BaseModel):
    a: int


def turn(model: Any) -> Any:
    bound = model.bind_tools([add])
    first = bound.invoke("hello")
    call = first.tool_calls[0]
    result = ToolMessage(add(**call["args"]), tool_call_id=call["id"])
    return [*added, bound.invoke([("user", "hello"), first, result]).text]


def anthropic_chat() -> Any:
    return claude.invoke("hello").content


def anthropic_stream() -> list[str]:
    return [chunk.text for chunk in claude.stream("hello") if chunk.text]


def anthropic_tool() -> Any:
    return turn(claude)


def anthropic_schema() -> Any:
    return claude.with_structured_output(Answer).invoke("hello").model_dump()


def cohere_chat() -> Any:
    return command.invoke("hello").content


def cohere_stream() -> list[str]:
    return [chunk.text for chunk in command.stream("hello") if chunk.text]


def cohere_tool() -> Any:
    return turn(command)


def cohere_vectors() -> Any:
    made: Any = CohereEmbeddings(model="nomic", base_url=URL, cohere_api_key=KEY)
    return made.embed_documents(TEXTS)


def cohere_best() -> Any:
    made: Any = CohereRerank(model="bge", base_url=URL, cohere_api_key=KEY, top_n=1)
    return made.rerank(DOCUMENTS, QUERY)[0]["index"]


def graph_tool() -> Any:
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    chat: Any = ChatOpenAI(model="llama", base_url=V1, api_key=KEY, max_retries=0)
    bound = chat.bind_tools([add])
    made = StateGraph(MessagesState)
    made.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    made.add_node("tools", ToolNode([add]))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    made.add_edge("tools", "model")
    state: Any = {"messages": [("user", "hello")]}
    final = made.compile().invoke(state)["messages"][-1]
    return [*added, final.content]


run(
    anthropic_chat=anthropic_chat,
    anthropic_stream=anthropic_stream,
    anthropic_tool=anthropic_tool,
    anthropic_schema=anthropic_schema,
    cohere_chat=cohere_chat,
    cohere_stream=cohere_stream,
    cohere_tool=cohere_tool,
    cohere_vectors=cohere_vectors,
    cohere_best=cohere_best,
    graph_tool=graph_tool,
)
