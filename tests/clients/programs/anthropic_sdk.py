"""anthropic: messages, streams, a loop with a tool, a schema, and the count of tokens."""

from typing import Any

import anthropic
import pydantic
from calling import HELLO, KEY, PARAMETERS, URL, add, added, run

client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
MORE: Any = {"model": "llama", "max_tokens": 500}
TOOL: Any = {"name": "add", "description": "Adds.", "input_schema": PARAMETERS}


class Answer(pydantic.BaseModel):
    a: int


def chat() -> Any:
    return client.messages.create(messages=HELLO, **MORE).content[0].text


def stream() -> list[str]:
    with client.messages.stream(messages=HELLO, **MORE) as events:
        return list(events.text_stream)


def tool() -> Any:
    more = {**MORE, "thinking": {"type": "adaptive"}, "tools": [TOOL]}
    first = client.messages.create(messages=HELLO, **more).content
    result = {"type": "tool_result", "tool_use_id": first[-1].id, "content": add(**first[-1].input)}
    turn: Any = [*HELLO, {"role": "assistant", "content": first}, {"role": "user", "content": [result]}]
    return [*added, client.messages.create(messages=turn, **more).content[0].text]


def runner_tool() -> Any:
    tool = anthropic.beta_tool(add)
    final = client.beta.messages.tool_runner(messages=HELLO, tools=[tool], **MORE).until_done()
    return [*added, final.content[0].text]


def schema() -> Any:
    return client.messages.parse(messages=HELLO, output_format=Answer, **MORE).parsed_output.model_dump()


def count() -> int:
    return client.messages.count_tokens(model="llama", messages=HELLO).input_tokens


run(chat=chat, stream=stream, tool=tool, runner_tool=runner_tool, schema=schema, count=count)
