"""openai: chats, tools, schemas, Responses, completions and vectors."""

from typing import Any

import openai
import pydantic
from calling import HELLO, KEY, PARAMETERS, TEXTS, V1, add, added, run

client = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
FUNCTION: Any = {"name": "add", "description": "Adds.", "parameters": PARAMETERS, "strict": True}
CHAT_TOOL: Any = {"type": "function", "function": FUNCTION}
TOOL: Any = {"type": "function", **FUNCTION}


class Answer(pydantic.BaseModel):
    a: int


def chat() -> str | None:
    return client.chat.completions.create(model="llama", messages=HELLO).choices[0].message.content


def stream() -> list[str]:
    with client.chat.completions.stream(model="llama", messages=HELLO) as events:
        return [event.delta for event in events if event.type == "content.delta"]


def tool() -> Any:
    first = client.chat.completions.parse(model="llama", messages=HELLO, tools=[CHAT_TOOL]).choices[0].message
    call: Any = first.tool_calls[0] if first.tool_calls else None
    result = {"role": "tool", "tool_call_id": call.id, "content": add(**call.function.parsed_arguments)}
    turn: Any = [*HELLO, first, result]
    second = client.chat.completions.create(model="llama", messages=turn, tools=[CHAT_TOOL])
    return [*added, second.choices[0].message.content]


def schema() -> Any:
    answer = client.chat.completions.parse(model="llama", messages=HELLO, response_format=Answer)
    return answer.choices[0].message.parsed.model_dump()


def responses() -> str:
    return client.responses.create(model="llama", input="hello", store=False, include=[]).output_text


def responses_stream() -> list[str]:
    with client.responses.stream(model="llama", input="hello") as events:
        return [event.delta for event in events if event.type == "response.output_text.delta"]


def responses_tool() -> Any:
    turn: list[Any] = list(HELLO)
    more: Any = {"tools": [TOOL], "include": ["reasoning.encrypted_content"], "store": False}
    first = client.responses.create(model="llama", input=turn, **more)
    call: Any = first.output[-1]
    turn += first.output
    turn.append({"type": "function_call_output", "call_id": call.call_id, "output": add(1)})
    return [*added, client.responses.create(model="llama", input=turn, **more).output_text]


def responses_schema() -> Any:
    return client.responses.parse(model="llama", input="hello", text_format=Answer).output_parsed.model_dump()


def completion() -> str:
    return client.completions.create(model="llama", prompt="the cat").choices[0].text


def vectors() -> Any:
    return [item.embedding for item in client.embeddings.create(model="nomic", input=TEXTS).data]


def tokens_vectors() -> Any:
    """The ids that LangChain's OpenAIEmbeddings sends by default; it downloads their tokenizer first."""
    ids: Any = [[1820, 8415], [64, 5634]]
    return [item.embedding for item in client.embeddings.create(model="nomic", input=ids).data]


run(
    chat=chat,
    stream=stream,
    tool=tool,
    schema=schema,
    responses=responses,
    responses_stream=responses_stream,
    responses_tool=responses_tool,
    responses_schema=responses_schema,
    completion=completion,
    vectors=vectors,
    tokens_vectors=tokens_vectors,
)
