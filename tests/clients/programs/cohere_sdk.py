"""cohere: both versions of chat, embed and rerank."""

from typing import Any

import cohere
from calling import DOCUMENTS, HELLO, KEY, PARAMETERS, QUERY, TEXTS, URL, add, added, run

old, new = cohere.Client(KEY, base_url=URL), cohere.ClientV2(KEY, base_url=URL)
TOOL: Any = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}
A: Any = {"type": "int", "required": True}
OLD_TOOL: Any = {"name": "add", "description": "Adds.", "parameter_definitions": {"a": A}}


def chat() -> Any:
    return new.chat(model="llama", messages=HELLO).message.content[0].text


def stream() -> list[str]:
    events = new.chat_stream(model="llama", messages=HELLO)
    return [event.delta.message.content.text for event in events if event.type == "content-delta"]


def tool() -> Any:
    first = new.chat(model="llama", messages=HELLO, tools=[TOOL]).message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": add(1)}
    return [*added, new.chat(model="llama", messages=[*HELLO, first, result], tools=[TOOL]).message.content[0].text]


def v1_chat() -> str:
    return old.chat(model="llama", message="hello").text


def v1_stream() -> list[str]:
    events = old.chat_stream(model="llama", message="hello")
    return [event.text for event in events if event.event_type == "text-generation"]


def v1_tool() -> Any:
    first = old.chat(model="llama", message="hello", tools=[OLD_TOOL])
    result: Any = {"call": first.tool_calls[0], "outputs": [{"sum": add(**first.tool_calls[0].parameters)}]}
    more: Any = {"tools": [OLD_TOOL], "chat_history": first.chat_history, "tool_results": [result]}
    return [*added, old.chat(model="llama", message="", **more).text]


def vectors() -> Any:
    more: Any = {"input_type": "search_document", "embedding_types": ["float"]}
    return new.embed(model="nomic", texts=TEXTS, **more).embeddings.float_


def best() -> int:
    return new.rerank(model="bge", query=QUERY, documents=DOCUMENTS).results[0].index


run(
    chat=chat,
    stream=stream,
    tool=tool,
    v1_chat=v1_chat,
    v1_stream=v1_stream,
    v1_tool=v1_tool,
    vectors=vectors,
    best=best,
)
