"""groq and together, clients of other vendors, and chatlas: each at the gateway's address."""

from typing import Any

from calling import HELLO, KEY, KINDS, PARAMETERS, TEXTS, URL, V1, add, added, run

TOOL: Any = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}


def text(client: Any) -> Any:
    return client.chat.completions.create(model="llama", messages=HELLO).choices[0].message.content


def pieces(client: Any) -> list[str]:
    events = client.chat.completions.create(model="llama", messages=HELLO, stream=True)
    return [event.choices[0].delta.content for event in events if event.choices and event.choices[0].delta.content]


def turn(client: Any) -> Any:
    first = client.chat.completions.create(model="llama", messages=HELLO, tools=[TOOL]).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": add(1)}
    messages = [*HELLO, first.model_dump(), result]
    answer = client.chat.completions.create(model="llama", messages=messages, tools=[TOOL]).choices[0].message.content
    return [*added, answer]


def groq() -> Any:
    from groq import Groq

    return Groq(base_url=URL, api_key=KEY, max_retries=0)


def groq_chat() -> Any:
    return text(groq())


def groq_stream() -> list[str]:
    return pieces(groq())


def groq_tool() -> Any:
    return turn(groq())


def together() -> Any:
    from together import Together

    return Together(base_url=URL, api_key=KEY, max_retries=0)


def together_chat() -> Any:
    return text(together())


def together_stream() -> list[str]:
    return pieces(together())


def together_tool() -> Any:
    return turn(together())


def together_vectors() -> Any:
    return [item.embedding for item in together().embeddings.create(model="nomic", input=TEXTS).data]


def chatlas() -> Any:
    from chatlas import ChatOpenAICompletions

    return ChatOpenAICompletions(base_url=V1, api_key=KEY, model="llama")


def chatlas_chat() -> Any:
    return str(chatlas().chat("hello", echo="none"))


def chatlas_stream() -> list[str]:
    return [piece for piece in chatlas().stream("hello", echo="none") if piece.strip("\n")]


def chatlas_tool() -> Any:
    chat = chatlas()
    chat.register_tool(add)
    answer = str(chat.chat("hello", echo="none"))
    return [*added, answer]


run(**{name: call for name, call in list(globals().items()) if name.rsplit("_", 1)[-1] in KINDS})
