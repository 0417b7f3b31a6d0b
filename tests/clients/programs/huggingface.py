"""huggingface_hub: chats of InferenceClient, and vectors of TEI's path."""

from typing import Any

import huggingface_hub
from calling import HELLO, KEY, PARAMETERS, TEXTS, URL, V1, add, added, run

client = huggingface_hub.InferenceClient(base_url=V1, api_key=KEY)
TOOL: Any = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}


def chat() -> Any:
    return client.chat_completion(HELLO, model="llama").choices[0].message.content


def stream() -> list[str]:
    events = client.chat_completion(HELLO, model="llama", stream=True)
    return [event.choices[0].delta.content for event in events if event.choices and event.choices[0].delta.content]


def tool() -> Any:
    first = client.chat_completion(HELLO, model="llama", tools=[TOOL]).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": add(1)}
    turn: Any = [*HELLO, first, result]
    return [*added, client.chat_completion(turn, model="llama", tools=[TOOL]).choices[0].message.content]


def vectors() -> Any:
    embedder = huggingface_hub.InferenceClient(model=f"{URL}/embed", token=KEY)
    return [embedder.feature_extraction(text).tolist()[0] for text in TEXTS]


run(chat=chat, stream=stream, tool=tool, vectors=vectors)
