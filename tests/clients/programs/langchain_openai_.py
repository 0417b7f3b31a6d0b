"""langchain-openai: chats, Responses, schemas and vectors."""

from typing import Any

import pydantic
from calling import KEY, TEXTS, V1, add, added, run
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

more: Any = {"model": "llama", "base_url": V1, "api_key": KEY, "max_retries": 0}
model, new_model = ChatOpenAI(**more), ChatOpenAI(use_responses_api=True, **more)


class Answer(pydantic.BaseModel):
    a: int


def chat() -> Any:
    return model.invoke("hello").content


def stream() -> list[str]:
    return [chunk.text for chunk in model.stream("hello") if chunk.text]


def turn(chat_model: Any) -> Any:
    bound = chat_model.bind_tools([add])
    first = bound.invoke("hello")
    call = first.tool_calls[0]
    result = ToolMessage(add(**call["args"]), tool_call_id=call["id"])
    return [*added, bound.invoke([("user", "hello"), first, result]).text]


def tool() -> Any:
    return turn(model)


def schema() -> Any:
    answer: Any = model.with_structured_output(Answer).invoke("hello")
    return answer.model_dump()


def responses() -> Any:
    return new_model.invoke("hello").text


def responses_tool() -> Any:
    return turn(new_model)


def vectors() -> Any:
    made: Any = OpenAIEmbeddings(model="nomic", base_url=V1, api_key=KEY, check_embedding_ctx_length=False)
    return made.embed_documents(TEXTS)


run(
    chat=chat,
    stream=stream,
    tool=tool,
    schema=schema,
    responses=responses,
    responses_tool=responses_tool,
    vectors=vectors,
)
