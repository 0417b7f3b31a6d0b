"""litellm: OpenAI's chats, Anthropic's messages, vLLM's and Cohere's reranks, through its own translations."""

from typing import Any

import litellm
from calling import DOCUMENTS, HELLO, KEY, PARAMETERS, QUERY, TEXTS, URL, V1, add, added, run

TOOL: Any = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}
more: Any = {"model": "openai/llama", "api_base": V1, "api_key": KEY, "num_retries": 0}
claude: Any = {"model": "anthropic/llama", "api_base": URL, "api_key": KEY, "num_retries": 0}


def text(**chosen: Any) -> Any:
    answer: Any = litellm.completion(messages=HELLO, **chosen)
    return answer.choices[0].message.content


def pieces(**chosen: Any) -> list[str]:
    events: Any = litellm.completion(messages=HELLO, stream=True, **chosen)
    return [event.choices[0].delta.content for event in events if event.choices[0].delta.content]


def turn(**chosen: Any) -> Any:
    answer: Any = litellm.completion(messages=HELLO, tools=[TOOL], **chosen)
    first = answer.choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": add(1)}
    second: Any = litellm.completion(messages=[*HELLO, first.model_dump(), result], tools=[TOOL], **chosen)
    return [*added, second.choices[0].message.content]


def vectors() -> Any:
    answer: Any = litellm.embedding(model="openai/nomic", input=TEXTS, api_base=V1, api_key=KEY)
    return [item["embedding"] for item in answer.data]


def best(provider: str, base: str) -> Any:
    answer: Any = litellm.rerank(f"{provider}/bge", QUERY, DOCUMENTS, api_base=base, api_key=KEY)
    return answer.results[0]["index"]


run(
    chat=lambda: text(**more),
    stream=lambda: pieces(**more),
    tool=lambda: turn(**more),
    vllm_chat=lambda: text(**more | {"model": "hosted_vllm/llama"}),
    anthropic_chat=lambda: text(**claude),
    anthropic_stream=lambda: pieces(**claude),
    anthropic_tool=lambda: turn(**claude),
    responses=lambda: litellm.responses(input="hello", **more).output[0].content[0].text,
    vectors=vectors,
    best=lambda: best("cohere", URL),
    vllm_best=lambda: best("hosted_vllm", URL),
    jina_best=lambda: best("jina_ai", V1),
)
