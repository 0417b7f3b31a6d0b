"""`POST /v1/completions`: prompts without a template.

The client writes the whole prompt, control tokens included; for prompts with text of third parties it should use chats.
A prompt of ids is sent unchanged. Choices of several prompts are numbered as by OpenAI's server: all of the first
prompt, then all of the second.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from gateway.batch import Batch, batch_of
from gateway.events import Event
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.generation import FINISHES, most_characters, refuse_longer, room, stream_of
from gateway.logprobs import Listed, content_of
from gateway.request import Request
from gateway.sampling import MOST_LOGPROBS, endless, refuse_logprobs, sampling_of
from gateway.settings import ModelSettings
from gateway.unsupported import refuse_changes

PREFIX, KIND = "cmpl", "text_completion"
Prompt = str | list[int]
ECHO_COPIES = 4
"""A whole answer's echoes in memory: as texts, as JSON, and as bytes that the connection has not taken."""
LISTED_BYTES = 256
"""Bytes of a token's log probability in a whole answer, and of each alternative's."""


async def completions(request: Request) -> None:
    """Sends the model's continuations."""
    batch, echoes = await understood(request)
    await (streamed if batch.first.streams else whole)(batch, Choices(batch, echoes))


async def understood(request: Request) -> tuple[Batch, list[str]]:
    """The generations of the request, with prompts tokenised, and the text that begins each prompt's choices.

    Raises: FieldError, ApiError for every unsupported request.
    """
    fields = request.fields()
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    most = request.exchange.limits.inputs
    prompts = prompts_of(fields, most)
    sampling = sampling_of(fields, request.gateway.prompters[model.name].defaults, model.context_tokens, model.no_guide)
    sampling = endless(fields, sampling, model.is_over_http)
    sampling = replace(sampling, logprobs=fields.maybe_whole("logprobs", 0, MOST_LOGPROBS))
    refuse_logprobs(sampling, model.has_ids)
    if len(prompts) * sampling.sequences > most:
        message = f"`n`: {len(prompts)} prompts with {sampling.sequences} choices each are more than {most} choices"
        raise FieldError("n", f"{message}; send fewer prompts at once, or ask for a smaller `n`", "invalid_value")
    streams, reports_usage = stream_of(fields)
    fields.text("user", "")  # accepted without effect
    echoes = echoes_of(fields, prompts, sampling.logprobs is not None)
    if not streams:  # a whole answer repeats the prompt in each choice
        request.hold_answer(ECHO_COPIES * sampling.sequences * sum(map(len, map(compact, filter(None, echoes)))))
    fields.only("suffix", "", because="text before a suffix is not supported; put all of the text into `prompt`")
    fields.only("logit_bias", {}, because="a bias of tokens is not supported")
    fields.only("add_special_tokens", True, because="special tokens are always added; send ids without them")
    fields.only("best_of", 1, sampling.sequences, because="every generated answer is sent; use `n` for several")
    refuse_changes(fields, {})
    fields.close()
    tokenised: list[tuple[Sequence[int], int]] = []
    for number, prompt in enumerate(prompts):
        if number and request.is_large:
            await request.gateway.pauses.pause()
        param = f"prompt[{number}]" if len(prompts) > 1 else "prompt"
        tokens = await ids(request, prompt, model, param)
        tokenised.append((tokens, room(model, len(tokens), sampling.max_tokens, param)))
    return batch_of(request, name, model, tokenised, sampling, streams, reports_usage), echoes


def prompts_of(fields: Fields, most: int) -> list[Prompt]:
    """The prompts: a text, a list of ids, or a list of up to `most` texts or lists of ids.

    Raises: FieldError for everything else.
    """
    value = fields.value("prompt")
    if isinstance(value, str) or (isinstance(value, list) and value and is_ids(value)):
        return [value]
    if not isinstance(value, list) or not value:
        raise fields.wrong("prompt", "a text, a list of token ids, or a list of texts or of lists of token ids")
    if len(value) > most:
        message = f"`prompt` has {len(value)} prompts; a request has at most {most}"
        raise FieldError("prompt", f"{message}, so send them in several", "invalid_value")
    for number, prompt in enumerate(value):
        if not isinstance(prompt, str) and not (isinstance(prompt, list) and prompt and is_ids(prompt)):
            raise fields.wrong(f"prompt[{number}]", "a text or a list of token ids")
    return value


def is_ids(prompt: list[Any]) -> bool:
    return all(type(token) is int for token in prompt)


def echoes_of(fields: Fields, prompts: list[Prompt], wants_logprobs: bool) -> list[str]:
    """The text before each prompt's continuation: the prompt if `echo` is set, else empty.

    Raises: FieldError for prompts of ids, and with log probabilities, which exist only for the model's own tokens.
    """
    if not fields.flag("echo", False):
        return [""] * len(prompts)
    if wants_logprobs:
        reason = "log probabilities of prompts are not supported; leave out `echo` or `logprobs`"
        raise FieldError("echo", f"`echo`: {reason}", "unsupported")
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts):
        raise FieldError("echo", "`echo`: prompts of token ids are not sent back; send them as texts", "unsupported")
    return texts


async def ids(request: Request, prompt: Prompt, model: ModelSettings, param: str) -> Sequence[int]:
    """The prompt's ids: those of the request, or those of its text by the model's tokenizer.

    Raises: FieldError for unknown ids; ApiError for too long a text.
    """
    prompter = request.gateway.prompters[model.name]
    if isinstance(prompt, str):
        most = most_characters(model, prompter)
        refuse_longer(len(prompt), most, model, param)
        try:
            return await prompter.ids_of_text(prompt, request.key.tenant, most)
        except ValueError as error:
            raise FieldError(param, f"`{param}`: {error}", "invalid_value") from None
    if not all(0 <= token < prompter.vocabulary for token in prompt):
        raise FieldError(param, f"`{param}`: the model has the ids from 0 to {prompter.vocabulary - 1}")
    return array("i", prompt)


class Choices:
    """The choices of a request: each event's addition to its choice, with the echo before the first."""

    def __init__(self, batch: Batch, echoes: list[str]) -> None:
        sampling = batch.first.sampling
        self.count = len(echoes) * sampling.sequences
        self._echoes = {index: echoes[index // sampling.sequences] for index in range(self.count)}
        self._listed = [Listed() for _ in range(self.count)] if sampling.logprobs is not None else []
        self._has_others = bool(sampling.logprobs)
        self._spelled = batch.first.request.gateway.prompters[batch.first.model.name].spelled

    def new(self, event: Event) -> tuple[str, dict[str, Any] | None]:
        """The text and the log probabilities that the event adds; None without token texts."""
        text = self._echoes.pop(event.sequence, "") + event.text
        if not self._listed:
            return text, None
        entries = content_of(event.outputs, self._spelled)
        return text, self._listed[event.sequence].legacy_logprobs(entries, self._has_others)


def choice(index: int, text: str, finish: str | None, logprobs: dict[str, Any] | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


async def streamed(batch: Batch, choices: Choices) -> None:
    """Sends each event as it arrives; then the usage, if requested."""
    exchange, head = batch.first.request.exchange, batch.first.head(KIND, PREFIX)
    no_usage = {"usage": None} if batch.first.reports_usage else {}
    async with aclosing(batch.events()) as events:
        async for event in events:
            text, logprobs = choices.new(event)
            finish = FINISHES[event.finish] if event.finish else None
            await exchange.event({**head, "choices": [choice(event.sequence, text, finish, logprobs)], **no_usage})
    if batch.first.reports_usage:
        await exchange.event({**head, "choices": [], "usage": batch.first.usage()})
    await exchange.done()


async def whole(batch: Batch, choices: Choices) -> None:
    """Sends the whole continuations, with their usage."""
    texts, finishes = [""] * choices.count, [""] * choices.count
    listed: list[dict[str, Any] | None] = [None] * choices.count
    most_bytes = LISTED_BYTES * (1 + (batch.first.sampling.logprobs or 0))
    async with aclosing(batch.events()) as events:
        async for event in events:
            text, logprobs = choices.new(event)
            texts[event.sequence] += text
            finishes[event.sequence] = FINISHES.get(event.finish, finishes[event.sequence])
            if logprobs:
                listed[event.sequence] = joined(listed[event.sequence], logprobs)
                batch.first.request.hold_answer(len(logprobs["tokens"]) * most_bytes)
    answers = (choice(index, *rest) for index, rest in enumerate(zip(texts, finishes, listed, strict=True)))
    head, usage = compact(batch.first.head(KIND, PREFIX))[:-1], compact({"usage": batch.first.usage()})[1:]
    await batch.first.request.exchange.json_of_many(f'{head},"choices":', answers, f",{usage}")


def joined(before: dict[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
    """Log probabilities of the tokens so far with the new ones at their end."""
    if before is None:
        return more
    for name, values in before.items():
        if values is not None:
            values += more[name]
    return before
