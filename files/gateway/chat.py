"""`POST /v1/chat/completions`, as a stream of events and whole."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any

from gateway.events import Event
from gateway.fields import FieldError, Fields
from gateway.generation import FINISHES, Generation, room, stream_of
from gateway.logprobs import content_of
from gateway.messages import TOOLS, messages_of
from gateway.prompts import OURS, Prompter
from gateway.request import Request
from gateway.sampling import logprobs_of, sampling_of

PREFIX = "chatcmpl"


async def chat_completions(request: Request) -> None:
    """The model's answer is sent."""
    chat = await understood(request)
    await (streamed if chat.streams else whole)(chat)


async def understood(request: Request) -> Generation:
    """The request, its prompt tokenised.

    Raises: FieldError, ApiError for everything that it asks for and cannot have.
    """
    fields, gateway = request.fields(), request.gateway
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    prompter = gateway.prompters[model.name]
    messages = messages_of(fields, prompter.template.source)
    sampling = sampling_of(fields, prompter.defaults, model.context_tokens)
    sampling = replace(sampling, logprobs=logprobs_of(fields))
    streams, tells_usage = stream_of(fields)
    variables = variables_of(fields, prompter)
    refuse_the_rest(fields)
    fields.close()
    prompt = await ids(prompter, messages, variables)
    max_tokens = room(model, len(prompt), sampling.max_tokens, "messages")
    return Generation(request, name, model, prompt, sampling, max_tokens, streams, tells_usage)


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
        return await prompter.ids(messages, variables)
    except ValueError as error:
        raise FieldError("messages", f"`messages`: {error}", "invalid_value") from None


async def streamed(chat: Generation) -> None:
    """Each event is sent when it comes; then the usage, where it is asked for."""
    exchange, head = chat.request.exchange, chat.head("chat.completion.chunk", PREFIX)
    no_usage = {"usage": None} if chat.tells_usage else {}
    begun: set[int] = set()

    async def send(index: int, delta: dict[str, Any], finish: str | None = None, logprobs: object = None) -> None:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        await exchange.event({**head, "choices": [choice], **no_usage})

    async with aclosing(chat.events()) as told:
        async for event in told:
            if event.sequence not in begun:
                begun.add(event.sequence)
                await send(event.sequence, {"role": "assistant", "content": ""})
            entries = logprobs(chat, event)
            if event.text or entries:
                told_of = {"content": entries, "refusal": None} if entries else None
                await send(event.sequence, {"content": event.text}, logprobs=told_of)
            if event.finish:
                await send(event.sequence, {}, FINISHES[event.finish])
    if chat.tells_usage:
        await exchange.event({**head, "choices": [], "usage": chat.usage()})
    await exchange.done()


async def whole(chat: Generation) -> None:
    """The whole answer is sent, with its usage."""
    entries: list[list[dict[str, Any]]] = [[] for _ in range(chat.sampling.sequences)]
    texts, finishes = await chat.gathered(lambda event: entries[event.sequence].extend(logprobs(chat, event)))
    tells = chat.sampling.logprobs is not None
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": {"content": entries[index], "refusal": None} if tells else None,
            "finish_reason": finish,
        }
        for index, (text, finish) in enumerate(zip(texts, finishes, strict=True))
    ]
    head = chat.head("chat.completion", PREFIX)
    await chat.request.exchange.json({**head, "choices": choices, "usage": chat.usage()})


def logprobs(chat: Generation, event: Event) -> list[dict[str, Any]]:
    """An entry for each token of the event, where they were asked for."""
    if chat.sampling.logprobs is None:
        return []
    return content_of(event.outputs, chat.request.gateway.prompters[chat.model.name].spelled)
