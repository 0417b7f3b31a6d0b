"""Cohere's `POST /v2/chat`: its request, its answer and its events."""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.answer_parts import Call, Reasoning
from gateway.dialects import (
    Block,
    Blocks,
    NamedEvent,
    Step,
    Translation,
    answer,
    call_of,
    close,
    content_of,
    generation,
    moved,
    passed_over,
    stop_sequences,
    text_part,
    translation,
)
from gateway.errors import ApiError
from gateway.exchange import compact
from gateway.fields import Fields
from gateway.generation import Generation
from gateway.messages import MOST_MESSAGES, content_in
from gateway.request import Request
from gateway.unsupported import NO_LOGPROBS

FINISHES = {"stop": "COMPLETE", "length": "MAX_TOKENS"}
CHOICES = {"REQUIRED": "required", "NONE": "none"}
TEXT = {"text": "text"}
SAME_PRIORITY = "all requests have the same priority"


async def chat(request: Request) -> None:
    """Sends the model's message, as `/v2/chat` does."""
    fields = request.fields()
    chat = translation(request, fields)
    messages = fields.objects("messages", MOST_MESSAGES)
    await request.gateway.pauses.read_all(messages, partial(_message, chat=chat))
    sampling_fields(fields, chat)
    moved(fields, chat.body, tools="tools")
    if choice := fields.text("tool_choice", "", choices=("", *CHOICES)):
        chat.body["tool_choice"] = CHOICES[choice]
    answer_format(fields.inner("response_format"), chat)
    thinking = fields.inner("thinking")
    kind = thinking.text("type", "", choices=("", "enabled", "disabled"))
    passed_over(thinking, "token_budget")  # the length of the reasoning cannot be limited
    thinking.close()
    chat.think("", False if kind == "disabled" else None)
    fields.flag("strict_tools", False)  # a call that is demanded keeps its schema; no other does
    options = fields.inner("citation_options")
    options.ignore("mode", "OFF", "off", "DISABLED", "disabled", because="citations are not supported")
    options.close()
    refuse_unsupported(fields)
    close(fields, chat)
    understood_chat = await generation(request, chat)
    del thinking, fields, chat  # the body is not held while the model answers
    await answer(understood_chat, ChatWriter(understood_chat))


def _message(message: Fields, chat: Translation) -> None:
    role = message.text("role", choices=("user", "assistant", "system", "tool"))
    body: dict[str, Any] = {"role": role}
    thoughts = [plan] if (plan := message.text("tool_plan", "")) else []
    content = "" if message.has("tool_calls") and not message.has("content") else content_in(message, "content")
    if not isinstance(content, str):
        texts = [_text(part, role, thoughts) for part in content]
        content = content_of([text for text in texts if text is not None])
    body["content"] = content
    passed_over(message, "citations")
    moved(message, body, tool_calls="tool_calls", tool_call_id="tool_call_id")
    if thoughts and chat.reads("reasoning_content"):
        body["reasoning_content"] = "\n".join(thoughts)
    message.close()
    chat.message(body, message.where)


def _text(part: Fields, role: str, thoughts: list[str]) -> str | None:
    """The text of a part; None for a thought, which is added to the thoughts."""
    kind = part.text("type", "text")
    if kind == "thinking" and role == "assistant":
        thoughts.append(part.text("thinking"))
        return None
    if kind == "document" and role == "tool":
        data = part.inner("document").value("data")
        return data if isinstance(data, str) else compact(data)
    return text_part(part, TEXT, kind)


def sampling_fields(fields: Fields, chat: Translation) -> None:
    """Reads the fields of both versions for sampling, length and end of the answer."""
    moved(fields, chat.body, max_tokens="max_tokens", temperature="temperature", seed="seed", p="top_p")
    moved(fields, chat.body, stream="stream")
    stop_sequences(fields, chat)
    moved(fields, chat.body, frequency_penalty="frequency_penalty", presence_penalty="presence_penalty")
    if top_k := fields.whole("k", 0, 2**31 - 1, 0):  # 0 means all
        chat.body["top_k"] = top_k
    chat.names |= {"top_p": "p", "top_k": "k"}


def answer_format(form: Fields, chat: Translation) -> None:
    """Sets the format that the answer must have."""
    kind = form.text("type", "text", choices=("text", "json_object"))
    name = "json_schema" if form.has("json_schema") else "schema"
    schema = form.value("json_schema") or form.value("schema")
    if schema is not None:
        chat.body["response_format"] = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema}}
        chat.names["response_format.json_schema.schema"] = form.path(name)
    elif kind == "json_object":
        chat.body["response_format"] = {"type": kind}
    form.close()


def refuse_unsupported(fields: Fields) -> None:
    """Refuses fields of both versions that no model here supports."""
    fields.only("documents", [], because="citations are not supported: write the document into a message")
    fields.only("safety_mode", "OFF", "NONE", because="instructions cannot be added to the prompt")
    fields.only("logprobs", False, because=NO_LOGPROBS)
    fields.only("raw_prompting", False, because="send a prompt without a template to /v1/completions")
    fields.only("priority", 0, because=SAME_PRIORITY)


class ChatWriter:
    """A message of Cohere: thinking and texts as its content, then calls."""

    ends_with_done = True

    def __init__(self, chat: Generation) -> None:
        self._chat = chat
        self._identity = chat.request.exchange.identity

    def begin(self) -> list[NamedEvent]:
        """The first event: the message without content."""
        empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        return [_event("message-start", id=self._identity, delta={"message": empty})]

    def step(self, step: Step) -> list[NamedEvent]:
        """The start of a content or a call, its additions, and its end."""
        kind, block, text = step
        subject = "tool-call" if block.kind is Call else "content"
        if kind == "end":
            return [_event(f"{subject}-end", index=block.number)]
        if block.kind is Call:
            call = call_of(block.identity, block.name, "") if kind == "begin" else {"function": {"arguments": text}}
            message: dict[str, Any] = {"tool_calls": call}
        else:
            word = _word(block)
            message = {"content": {"type": word, word: ""} if kind == "begin" else {word: text}}
        name = f"{subject}-{'start' if kind == 'begin' else 'delta'}"
        return [_event(name, index=block.number, delta={"message": message})]

    def end(self, blocks: Blocks, finish: str) -> list[NamedEvent]:
        """The events of the end: reason and usage."""
        delta = {"finish_reason": _finish(blocks, finish), "usage": self._usage()}
        return [_event("message-end", id=self._identity, delta=delta)]

    def failure(self, error: ApiError) -> NamedEvent:
        """The message's end, with the error."""
        delta = {"finish_reason": "ERROR", "error": error.message, "usage": self._usage()}
        return _event("message-end", id=self._identity, delta=delta)

    def whole(self, blocks: Blocks, finish: str) -> dict[str, Any]:
        """The message with all its content."""
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = [
            {"type": _word(block), _word(block): block.text} for block in blocks.blocks if block.kind is not Call
        ]
        if calls := [call_of(block.identity, block.name, block.text) for block in blocks.blocks if block.kind is Call]:
            message["tool_calls"] = calls
        end = {"finish_reason": _finish(blocks, finish), "usage": self._usage()}
        return {"id": self._identity, "message": message, **end}

    def _usage(self) -> dict[str, Any]:
        usage = self._chat.usage()
        counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return {"billed_units": counts, "tokens": counts, "cached_tokens": cached}


def _event(kind: str, **fields: Any) -> NamedEvent:
    return kind, {"type": kind, **fields}


def _word(block: Block) -> str:
    return "thinking" if block.kind is Reasoning else "text"


def _finish(blocks: Blocks, finish: str) -> str:
    return "TOOL_CALL" if blocks.has_called and finish == "stop" else FINISHES[finish]
