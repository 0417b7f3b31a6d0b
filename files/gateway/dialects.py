"""Other vendors' chats, translated into OpenAI's: the request before the model is asked, the answer's parts after.

A dialect's module reads its own fields and makes a chat's body of them; `chat.py` reads that body, so limits, tools,
schemas and counts are the same in every dialect. A refusal then names the field that the client wrote. The answer comes
as blocks (reasoning, text, calls), which the dialect's `Writer` turns into its own events. More than
300 lines: request, answer and errors of a dialect are one subject.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from gateway.answer_parts import Call, Part
from gateway.calls import value_of
from gateway.chat import SWITCHES, conversation_of, ids, parts_of, understood
from gateway.errors import ApiError
from gateway.fields import FieldError, Fields
from gateway.generation import Generation
from gateway.messages import content_in, reads_field
from gateway.request import Request
from gateway.tokens import Tokens
from gateway.tools import MOST_TOOLS
from gateway.unsupported import CHATS_OWN, ONE_TEXT

EFFORTS = {
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""Words of the dialects for a reasoning effort, and the nearest of the three that templates know."""
TEXT_ONLY = "this model reads text only"
NamedEvent = tuple[str, dict[str, Any]]
Result = TypeVar("Result")


@dataclass
class Translation:
    """A chat's body, and the client's own path for each of its paths: `messages[2]` was `input[1]`."""

    body: dict[str, Any]
    prompter: Tokens
    names: dict[str, str] = field(default_factory=dict)

    def message(self, message: dict[str, Any], path: str) -> None:
        """Adds a message that the client wrote at this path."""
        messages = self.body.setdefault("messages", [])
        self.names[f"messages[{len(messages)}]"] = path
        messages.append(message)

    def tools(self, fields: Fields, read: Callable[[Fields], dict[str, Any]], parameters: str) -> None:
        """Adds the tools that the client offers; `parameters` is the dialect's name for their schema."""
        if offered := [read(tool) for tool in fields.objects("tools", MOST_TOOLS, least=0)]:
            self.body["tools"] = offered
        for place in (f"tools[{number}]" for number in range(len(offered))):
            self.names |= {f"{place}.function": place, f"{place}.function.parameters": f"{place}.{parameters}"}

    def reads(self, name: str) -> bool:
        return reads_field(self.prompter.template.source, name)

    def think(self, effort: str, is_on: bool | None = None) -> None:
        """Passes the reasoning effort to the template, if it supports one; None leaves its default."""
        variables = self.prompter.template.names
        if effort and "reasoning_effort" in variables:
            self.body["reasoning_effort"] = EFFORTS[effort]
        if is_on is not None and (switches := variables.intersection(SWITCHES)):
            self.body["chat_template_kwargs"] = dict.fromkeys(switches, is_on)

    def path(self, path: str) -> str:
        """The path of a field in the client's request, from its path in the chat's form."""
        stem = path
        while stem:
            if stem in self.names:
                return self.names[stem] + path[len(stem) :]
            stem = stem[: max(stem.rfind("."), stem.rfind("["), 0)]
        return path

    async def understood(self, work: Awaitable[Result]) -> Result:
        """The result of `work`; a refusal names the client's own field.

        Raises: FieldError, ApiError.
        """
        try:
            return await work
        except FieldError as error:
            path = self.path(error.param)
            raise FieldError(path, error.message.replace(f"`{error.param}`", f"`{path}`"), error.code) from None
        except ApiError as error:
            error.param = self.path(error.param) if error.param else error.param
            raise


def translation(request: Request, fields: Fields) -> Translation:
    """An empty translation for the model that the fields name.

    Raises: FieldError, ApiError 404 or 400.
    """
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    return Translation({"model": name}, request.gateway.prompters[model.name])


async def generation(request: Request, chat: Translation, cuts_answer: bool = False) -> Generation:
    """The generation of the chat, as if the client had sent it to `/v1/chat/completions`; `cuts_answer` as there."""
    request.body = chat.body
    return await chat.understood(understood(request, cuts_answer))


async def token_count(request: Request, chat: Translation) -> int:
    """The number of tokens of the chat's prompt, charged to the key without asking a model.

    Raises: FieldError, ApiError.
    """
    settings, _ = request.model(chat.body.pop("model"), "llm")
    request.body = chat.body
    reading = conversation_of(request.fields(), settings, chat.prompter, request.gateway.pauses)
    tokens = await chat.understood(ids(request, settings, await chat.understood(reading)))
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    return len(tokens)


def close(fields: Fields, chat: Translation) -> None:
    """Passes a chat's own fields on, which the dialect has no word for; the others are noted or refused.

    Raises: FieldError.
    """
    for name in CHATS_OWN:
        if fields.has(name):
            if name in chat.body:
                raise FieldError(name, f"`{name}` and `{chat.path(name)}` mean the same: send either", "invalid_value")
            chat.body[name] = fields.value(name)
            chat.names.pop(name, None)
    for name, (accepted, because) in ONE_TEXT.items():
        fields.only(name, accepted, because=because)
    fields.close()


def moved(fields: Fields, body: dict[str, Any], **names: str) -> None:
    for name, chat_name in names.items():
        if fields.has(name):
            body[chat_name] = fields.value(name)


def stop_sequences(fields: Fields, chat: Translation) -> None:
    if fields.has("stop_sequences"):
        value = fields.value("stop_sequences")
        if not isinstance(value, list):
            raise fields.wrong("stop_sequences", "a list of texts")
        chat.body["stop"] = value
        chat.names["stop"] = "stop_sequences"


def passed_over(fields: Fields, *names: str) -> None:
    for name in names:
        fields.value(name)


def text_parts(
    fields: Fields, name: str, kinds: dict[str, str], read: Callable[[Fields, str], str] | None = None
) -> list[str]:
    """The texts of a content: a single text, or a list of parts. `kinds` has the field that holds each kind's text.

    `read` returns the text of a part of the given kind instead.
    """
    parts = content_in(fields, name)
    if isinstance(parts, str):
        return [parts]
    return [read(part, part.text("type", next(iter(kinds)))) if read else text_part(part, kinds) for part in parts]


def text_part(part: Fields, kinds: dict[str, str], kind: str = "") -> str:
    """The text of a part of a known kind. Its other fields change nothing."""
    kind = kind or part.text("type", next(iter(kinds)))
    if kind not in kinds:
        raise FieldError(part.path("type"), f"`{part.path('type')}`: {TEXT_ONLY}", "unsupported")
    return part.text(kinds[kind])


def content_of(texts: Sequence[str]) -> Any:
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts] or ""


def call_of(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def function_of(tool: Fields, parameters: str) -> dict[str, Any]:
    """A tool in a chat's form; `parameters` is the dialect's name for the schema."""
    function = {"name": tool.text("name"), "description": tool.text("description", "")}
    schema = tool.value(parameters)
    return {"type": "function", "function": function | ({} if schema is None else {"parameters": schema})}


@dataclass
class Block:
    """A complete part of an answer: reasoning, text, or one call with its arguments in `text`."""

    number: int
    kind: type[Part]
    text: str = ""
    name: str = ""
    identity: str = ""
    is_ended: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """A call's arguments as an object; empty for an interrupted call, and for NaN or deep nesting."""
        value = value_of(self.text or "{}")
        return value if isinstance(value, dict) else {}


Step = tuple[Literal["begin", "add", "end"], Block, str]


class Blocks:
    """An answer's parts as blocks, each of which ends before the next begins."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._calls: dict[int, Block] = {}

    def feed(self, part: Part) -> Iterator[Step]:
        """The answer's steps that this part of the model's text makes."""
        last = self.blocks[-1] if self.blocks and not self.blocks[-1].is_ended else None
        is_same = last is not None and last.kind is type(part)
        if isinstance(part, Call):
            is_same = is_same and self._calls.get(part.index) is last
        if not is_same:
            yield from self.end()
            last = Block(len(self.blocks), type(part))
            if isinstance(part, Call):
                last.name, last.identity = part.name, part.identity
                self._calls[part.index] = last
            self.blocks.append(last)
            yield "begin", last, ""
        assert last is not None
        text = part.arguments if isinstance(part, Call) else part.text
        if text:
            last.text += text
            yield "add", last, text

    def end(self) -> Iterator[Step]:
        if self.blocks and not self.blocks[-1].is_ended:
            self.blocks[-1].is_ended = True
            yield "end", self.blocks[-1], ""

    @property
    def has_called(self) -> bool:
        return bool(self._calls)


class Writer(Protocol):
    """An answer in a dialect: its events, and their sum as a whole answer."""

    ends_with_done: bool
    """The stream ends with OpenAI's mark."""

    def begin(self) -> list[NamedEvent]:
        """The events before the first part."""

    def step(self, step: Step) -> list[NamedEvent]:
        """The dialect's events for a step of a content block."""

    def end(self, blocks: Blocks, finish: str) -> list[NamedEvent]:
        """The events after the last part; `finish` is the model's finish reason."""

    def failure(self, error: ApiError) -> NamedEvent:
        """The event that ends a broken stream."""

    def whole(self, blocks: Blocks, finish: str) -> dict[str, Any]:
        """The whole answer, for a client that does not stream."""


async def answer(chat: Generation, writer: Writer) -> None:
    """Sends the model's answer, as a stream or whole."""
    exchange, blocks, finish, has_begun = chat.request.exchange, Blocks(), "", False
    if chat.streams:
        exchange.last_words = writer.failure

    async def send(events: list[NamedEvent]) -> None:
        for name, value in events if chat.streams else ():
            await exchange.named_event(name, value)

    async with aclosing(chat.events()) as events:
        async for event in events:
            if not has_begun:
                has_begun = True
                await send(writer.begin())
            for part in parts_of(chat, event):
                for step in blocks.feed(part):
                    await send(writer.step(step))
            finish = event.finish or finish
    for step in blocks.end():
        await send(writer.step(step))
    if not chat.streams:
        await exchange.json(writer.whole(blocks, finish))
        return
    *events_before, last = writer.end(blocks, finish)
    await send(events_before)
    await exchange.named_event(*last, more=writer.ends_with_done)
    if writer.ends_with_done:
        await exchange.done()
