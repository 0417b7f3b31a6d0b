"""`POST /v1/completions`: a prompt as it is, without a template.

The client writes the whole prompt, control tokens too: whoever lets strangers write into it uses chats. A prompt of
ids is sent as it is. Several prompts in one request are refused: their answers are those of several requests.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from gateway.chat import refuse_changes
from gateway.fields import FieldError, Fields
from gateway.generation import FINISHES, Generation, most_characters, refuse_longer, room, stream_of
from gateway.request import Request
from gateway.sampling import sampling_of
from gateway.settings import ModelSettings

PREFIX, KIND = "cmpl", "text_completion"


async def completions(request: Request) -> None:
    """The model's continuation is sent."""
    asked = await understood(request)
    await (streamed if asked.streams else whole)(asked)


async def understood(request: Request) -> Generation:
    """The request, its prompt tokenised.

    Raises: FieldError, ApiError for everything that it asks for and cannot have.
    """
    fields = request.fields()
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    prompter = request.gateway.prompters[model.name]
    prompt = await ids(request, fields, model)
    sampling = sampling_of(fields, prompter.defaults, model.context_tokens, model.no_guide)
    streams, tells_usage = stream_of(fields)
    fields.text("user", "")  # changes nothing
    fields.only("echo", False, because="the prompt is not sent back")
    fields.only("suffix", "", because="nothing is written before a suffix")
    fields.only("logprobs", because="log probabilities are not offered")
    fields.only("logit_bias", {}, because="no bias of tokens is offered")
    fields.only("add_special_tokens", True, because="a text begins as the tokenizer begins one; send ids for another")
    refuse_changes(fields, {})
    fields.close()
    max_tokens = room(model, len(prompt), sampling.max_tokens, "prompt")
    return Generation(request, name, model, prompt, sampling, max_tokens, streams, tells_usage)


async def ids(request: Request, fields: Fields, model: ModelSettings) -> Sequence[int]:
    """The prompt's ids: those given, or those of the text as the model's tokenizer begins one.

    Raises: FieldError for none, for several prompts, and for ids that the model does not have; ApiError for too long a
    text.
    """
    prompter = request.gateway.prompters[model.name]
    given = fields.value("prompt")
    given = given[0] if isinstance(given, list) and len(given) == 1 and not isinstance(given[0], int) else given
    if isinstance(given, str):
        most = most_characters(model, prompter)
        refuse_longer(len(given), most, model, "prompt")
        try:
            return await prompter.ids_of_text(given, request.key.tenant, most)
        except ValueError as error:
            raise FieldError("prompt", f"`prompt`: {error}", "invalid_value") from None
    if not isinstance(given, list) or not given or not all(type(one) is int for one in given):
        raise fields.wrong("prompt", "a text or a list of token ids, one of them")
    if not all(0 <= one < prompter.vocabulary for one in given):
        raise FieldError("prompt", f"`prompt`: the model has the ids from 0 to {prompter.vocabulary - 1}")
    return array("i", given)


def choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
    """A choice as OpenAI's answer and its events have it."""
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


async def streamed(asked: Generation) -> None:
    """Each event is sent when it comes; then the usage, where it is asked for."""
    exchange, head = asked.request.exchange, asked.head(KIND, PREFIX)
    no_usage = {"usage": None} if asked.tells_usage else {}
    async with aclosing(asked.events()) as told:
        async for event in told:
            finish = FINISHES[event.finish] if event.finish else None
            await exchange.event({**head, "choices": [choice(event.sequence, event.text, finish)], **no_usage})
    if asked.tells_usage:
        await exchange.event({**head, "choices": [], "usage": asked.usage()})
    await exchange.done()


async def whole(asked: Generation) -> None:
    """The whole continuation is sent, with its usage."""
    texts, finishes = await asked.gathered()
    pairs = enumerate(zip(texts, finishes, strict=True))
    choices = [choice(index, text, finish) for index, (text, finish) in pairs]
    await asked.request.exchange.json({**asked.head(KIND, PREFIX), "choices": choices, "usage": asked.usage()})
