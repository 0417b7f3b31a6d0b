"""`POST /v1/chat/completions`, as a stream of events and whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from gateway.errors import ApiError
from gateway.fields import FieldError, Fields
from gateway.generation import Event, event_of
from gateway.messages import TOOLS, messages_of
from gateway.prompts import OURS, Prompter
from gateway.request import Request
from gateway.sampling import Sampling, sampling_of
from gateway.settings import ModelSettings
from gateway.tensors import Input, boolean, int32s

INLINE_CHARACTERS = 4096
"""A body of fewer texts is tokenised where it stands; a longer one in a thread, so that nobody waits for it."""
FINISHES = {"stop": "stop", "length": "length"}


@dataclass
class Chat:
    """A chat request that is understood."""

    request: Request
    name: str
    model: ModelSettings
    prompt: list[int]
    sampling: Sampling
    max_tokens: int
    streams: bool
    tells_usage: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def usage(self) -> dict[str, Any]:
        """OpenAI's count of tokens so far."""
        record = self.request.exchange.record
        prompt, completion = record.prompt_tokens, record.completion_tokens
        details = {"cached_tokens": record.cached_tokens}
        total = prompt + completion
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
        return {**counts, "prompt_tokens_details": details}

    def head(self, kind: str) -> dict[str, Any]:
        """The fields that answer and events share."""
        fingerprint = self.request.gateway.settings.fingerprint or None
        identity = f"chatcmpl-{self.request.exchange.identity}"
        shared = {"id": identity, "object": kind, "created": self.created, "model": self.name}
        return {**shared, "system_fingerprint": fingerprint}


async def chat_completions(request: Request) -> None:
    """The model's answer is sent."""
    chat = await understood(request)
    record = request.exchange.record
    record.prompt_tokens = len(chat.prompt)
    request.exchange.streams = chat.streams
    async with aclosing(events(chat)) as told:
        await (streamed if chat.streams else whole)(chat, told)


async def understood(request: Request) -> Chat:
    """The request, its prompt tokenised.

    Raises: FieldError, ApiError for everything that it asks for and cannot have.
    """
    fields, gateway = request.fields(), request.gateway
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    prompter = gateway.prompters[model.name]
    messages = messages_of(fields, prompter.template.source)
    sampling = sampling_of(fields, prompter.defaults, model.context_tokens)
    streams = fields.flag("stream", False)
    options = fields.inner("stream_options")
    tells_usage = options.flag("include_usage", False)
    options.only("include_obfuscation", False, because="events are not padded")
    options.close()
    variables = variables_of(fields, prompter)
    refuse_the_rest(fields)
    fields.close()
    prompt = await ids(prompter, messages, variables)
    max_tokens = room(model, len(prompt), sampling.max_tokens)
    return Chat(request, name, model, prompt, sampling, max_tokens, streams, tells_usage)


def variables_of(fields: Fields, prompter: Prompter) -> dict[str, Any]:
    """The client's own variables of the template, each of which the template reads."""
    given = fields.inner("chat_template_kwargs")
    found = {name: given.value(name) for name in sorted(prompter.template.names - OURS) if given.has(name)}
    given.close()
    if fields.has("reasoning_effort"):
        effort = fields.text("reasoning_effort")
        if "reasoning_effort" not in prompter.template.names:
            reason = "this model's template knows no reasoning effort"
            raise FieldError("reasoning_effort", f"`reasoning_effort`: {reason}", "unsupported")
        found["reasoning_effort"] = effort
    return found


def refuse_the_rest(fields: Fields) -> None:
    """Whatever else OpenAI's request may have says nothing, or is refused with the reason."""
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        fields.text(name, "")
    fields.only("tools", [], because=TOOLS)
    fields.only("functions", [], because=TOOLS)
    fields.only("tool_choice", "none", "auto", because=TOOLS)
    fields.only("function_call", "none", "auto", because=TOOLS)
    fields.only("parallel_tool_calls", True, False, because=TOOLS)
    fields.only("logprobs", False, because="log probabilities are not offered")
    fields.only("top_logprobs", 0, because="log probabilities are not offered")
    fields.only("logit_bias", {}, because="no bias of tokens is offered")
    fields.only("modalities", ["text"], because="the model writes text only")
    fields.only("audio", because="the model writes text only")
    fields.only("prediction", because="predicted outputs are not offered")
    fields.only("verbosity", because="the model knows no verbosity")
    fields.only("web_search_options", because="the model searches nothing")
    fields.only("service_tier", "auto", "default", because="all requests have the same tier")
    fields.only("store", False, because="nothing is stored")
    fields.only("metadata", {}, because="nothing is stored")


async def ids(prompter: Prompter, messages: list[dict[str, Any]], variables: dict[str, Any]) -> list[int]:
    """The prompt's ids.

    Raises: FieldError where the template refuses the messages.
    """
    try:
        if sum(len(message["content"]) for message in messages) <= INLINE_CHARACTERS:
            return prompter.ids(messages, variables)
        return await asyncio.to_thread(prompter.ids, messages, variables)
    except ValueError as error:
        raise FieldError("messages", f"`messages`: {error}", "invalid_value") from None


def room(model: ModelSettings, prompt: int, asked: int) -> int:
    """How many tokens the answer may have: as many as asked for, else all that the context leaves.

    Raises: ApiError 400 where prompt and answer do not fit the context.
    """
    left = model.context_tokens - prompt
    if left < max(asked, 1):
        message = f"the context is {model.context_tokens} tokens; the messages have {prompt}"
        message += f", and {asked} are asked for" if asked else ""
        raise ApiError(400, message, param="messages", code="context_length_exceeded")
    return asked or left


async def events(chat: Chat) -> AsyncGenerator[Event, None]:
    """The model's events; the audit's line counts them.

    Raises: UpstreamError; ApiError where the model's own time is over, or its answer breaks off.
    """
    request, record = chat.request, chat.request.exchange.record
    inputs: list[Input] = [int32s("prompt_token_ids", chat.prompt), *chat.sampling.tensors(chat.max_tokens)]
    inputs += [boolean("streaming", True)] if chat.streams else []
    work = request.work(chat.model, len(chat.prompt) + chat.max_tokens)
    unfinished = chat.sampling.sequences
    async with aclosing(request.gateway.fleet.stream(work, inputs, request.seconds)) as told:
        async for outputs in told:
            event = event_of(outputs)
            if record.first_token is None:
                record.first_token = time.monotonic()
            record.completion_tokens += event.completion_tokens
            record.cached_tokens = max(record.cached_tokens, event.cached_tokens)
            if event.finish and event.finish not in FINISHES:
                raise ApiError(504, "the model did not finish in time", code="timeout", is_spent=True)
            unfinished -= bool(event.finish)
            yield event
    if unfinished > 0:
        raise ApiError(502, "the model's answer broke off", code="upstream_error", is_spent=True)


async def streamed(chat: Chat, told: AsyncIterator[Event]) -> None:
    """Each event is sent when it comes; then the usage, where it is asked for."""
    exchange, head = chat.request.exchange, chat.head("chat.completion.chunk")
    no_usage = {"usage": None} if chat.tells_usage else {}
    begun: set[int] = set()
    async for event in told:
        if event.sequence not in begun:
            begun.add(event.sequence)
            await exchange.event(
                {**head, "choices": [chunk(event.sequence, {"role": "assistant", "content": ""})], **no_usage}
            )
        if event.text:
            await exchange.event({**head, "choices": [chunk(event.sequence, {"content": event.text})], **no_usage})
        if event.finish:
            await exchange.event({**head, "choices": [chunk(event.sequence, {}, FINISHES[event.finish])], **no_usage})
    if chat.tells_usage:
        await exchange.event({**head, "choices": [], "usage": chat.usage()})
    await exchange.done()


def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A choice of a stream's event."""
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


async def whole(chat: Chat, told: AsyncIterator[Event]) -> None:
    """The whole answer is sent, with its usage."""
    texts = [""] * chat.sampling.sequences
    finishes = [""] * chat.sampling.sequences
    async for event in told:
        texts[event.sequence] += event.text
        finishes[event.sequence] = event.finish or finishes[event.sequence]
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": FINISHES[finish],
        }
        for index, (text, finish) in enumerate(zip(texts, finishes, strict=True))
    ]
    await chat.request.exchange.json({**chat.head("chat.completion"), "choices": choices, "usage": chat.usage()})
