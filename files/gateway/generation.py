"""An LLM's current answer, for every endpoint with one: the request, the model's events, and their counts."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from gateway.answer_parts import Reader
from gateway.answer_size import AnswerSize
from gateway.budgets import DEFAULT_ANSWER_TOKENS
from gateway.errors import ApiError
from gateway.events import ABORTED, Event
from gateway.fields import FieldError, Fields
from gateway.llm_request import LlmRequest
from gateway.request import Request
from gateway.routing import prefix_of
from gateway.sampling import Sampling
from gateway.settings import ModelSettings
from gateway.tokens import Tokens

MARGIN_CHARACTERS = 65_536
"""Characters that a prompt may have besides its texts: the template's own around messages, and tools."""
FINISHES = {"stop": "stop", "length": "length"}
EVENT_BYTES = 256
"""Bytes of a whole answer's event besides its text, of which there are up to four copies until it is sent."""


@dataclass
class Generation:
    """A parsed request to an LLM, with its prompt as ids."""

    request: Request
    name: str
    model: ModelSettings
    prompt: Sequence[int]
    sampling: Sampling
    max_tokens: int
    streams: bool
    reports_usage: bool
    cache_key: str = ""
    """`prompt_cache_key`, which keeps prompts together on a server."""
    engine: ModelSettings | None = None
    """Engine of the request's longest prompt, which all its prompts share; None: the shortest with room."""
    readers: list[Reader] = field(default_factory=list)
    """Readers of a chat, one per sequence."""
    is_cut: bool = False
    """The request allows a longer answer than the context has room for."""
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        """Chooses the engine for this length, notes it for the audit, and prepares the exchange for events."""
        self.request.let_go()
        self.model, self.max_tokens = self._engine()
        self.request.exchange.record.model = self.model.name
        self.request.exchange.record.prompt_tokens = len(self.prompt)
        self.request.exchange.streams = self.streams

    def _engine(self) -> tuple[ModelSettings, int]:
        """The shortest engine of the model with room for prompt and answer, and the answer's largest length.

        An answer without a declared length gets at least half of a shorter engine's context.
        """
        max_tokens, models = self.sampling.max_tokens, self.request.gateway.settings.models
        if self.engine:
            return self.engine, max_tokens or self.engine.context_tokens - len(self.prompt)
        for model in (models[name] for name in self.request.alias.shorter if name in models):
            left = model.context_tokens - len(self.prompt)
            if left >= (max_tokens or model.context_tokens // 2):
                return model, max_tokens or left
        return self.model, self.max_tokens

    def usage(self) -> dict[str, Any]:
        """OpenAI's count of tokens so far."""
        record = self.request.exchange.record
        prompt, completion = record.prompt_tokens, record.completion_tokens
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        thoughts = [reader.thought_tokens for reader in self.readers]
        thought = sum(count for count in thoughts if count is not None)
        reasoning = {"completion_tokens_details": {"reasoning_tokens": min(thought, completion)}}
        is_counted = bool(thoughts) and None not in thoughts
        # If tenants share cached prefixes, this count would reveal how another tenant's prompt began.
        is_own = self.model.salts or not self.request.gateway.settings.keys_file
        details = {"prompt_tokens_details": {"cached_tokens": record.cached_tokens if is_own else 0}}
        return {**counts, **details, **(reasoning if is_counted else {})}

    def head(self, kind: str, prefix: str) -> dict[str, Any]:
        """The fields that an answer and its events share."""
        fingerprint = self.request.gateway.settings.fingerprint or None
        identity = f"{prefix}-{self.request.exchange.identity}"
        shared = {"id": identity, "object": kind, "created": self.created, "model": self.name}
        return {**shared, "system_fingerprint": fingerprint}

    def most_tokens(self, prompts: int = 1) -> int:
        """Tokens to reserve for prompts and answers of this request."""
        answer = self.max_tokens
        # At most a quarter of a key's minute: a small key could not make any request otherwise.
        if not self.sampling.max_tokens:
            minute = self.request.key.limits.tokens_per_minute // self.request.gateway.settings.hosts
            share = max(minute // (4 * prompts), 1) if minute else DEFAULT_ANSWER_TOKENS
            answer = min(answer, DEFAULT_ANSWER_TOKENS, share)
        return len(self.prompt) + self.sampling.sequences * answer

    async def events(self) -> AsyncGenerator[Event, None]:
        """The model's events, with their tokens reserved; the audit's line counts them.

        Raises: UpstreamError; ApiError if the model's time limit is over, or its answer breaks off.
        """
        self.request.reserve(self.most_tokens())
        async with aclosing(self.reserved_events(self.request.seconds)) as events:
            async for event in events:
                yield event

    async def reserved_events(self, seconds: float) -> AsyncGenerator[Event, None]:
        """The events of the model within a number of seconds, for a request with reserved tokens; like `events`."""
        record, unfinished = self.request.exchange.record, self.sampling.sequences
        metrics, labels, heard = self.request.gateway.metrics, (self.model.name,), dict[int, float]()
        cached = sent_tokens = 0
        adapter, salt = self.request.alias.adapter, self.request.salt(self.model)
        request = LlmRequest(self.prompt, self.sampling, self.max_tokens, self.streams, adapter, salt)
        session, tenant = self.request.session(self.cache_key), self.request.key.tenant
        prefix = prefix_of(self.prompt, tenant, f"{self.model.name}\0{adapter}", session)
        most = self.sampling.sequences * self.max_tokens
        work = self.request.work(self.model, len(self.prompt) + most, prefix)
        longest = self.request.gateway.prompters[self.model.name].longest
        size = AnswerSize(most, most * longest, len(self.prompt), self.sampling.sequences)
        async with aclosing(self.request.gateway.fleet.stream(work, request, seconds)) as events:
            async for sent in events:
                event, now = size.bounded(sent), time.monotonic()
                if record.first_token is None:
                    record.first_token = now
                    if self.streams:  # a whole answer arrives at once, so it has no time to the first token
                        metrics.first.observe(labels, now - record.began)
                elif event.sequence in heard:
                    metrics.gaps.observe(labels, now - heard[event.sequence])
                if self.streams:
                    heard[event.sequence] = now
                record.events += size.least_tokens - sent_tokens
                sent_tokens = size.least_tokens
                if not self.streams:
                    self.request.hold_answer(EVENT_BYTES + 4 * len(event.text))
                record.completion_tokens += event.completion_tokens
                if event.cached_tokens > cached:  # every sequence reports the same prompt
                    record.cached_tokens += event.cached_tokens - cached
                    cached = event.cached_tokens
                if event.finish == ABORTED:  # a streaming client has the beginning of the answer already
                    message = "the model's server stopped before the answer's end"
                    raise ApiError(503, message, code="unavailable", retry_after=2, is_spent=self.streams)
                if event.finish and event.finish not in FINISHES:
                    raise ApiError(504, "the model did not finish in time", code="timeout", is_spent=True)
                unfinished -= bool(event.finish)
                yield event
        if unfinished > 0:
            raise ApiError(502, "the model's answer broke off", code="upstream_error", is_spent=True)


def stream_of(fields: Fields) -> tuple[bool, bool]:
    """(streams, reports usage): True if the client wants events, and True if they have to report the usage."""
    streams = fields.flag("stream", False)
    if fields.has("stream_options") and not streams:
        raise FieldError("stream_options", "`stream_options` requires `stream` to be true", "invalid_value")
    options = fields.inner("stream_options")
    reports_usage = options.flag("include_usage", False)
    options.ignore("include_obfuscation", False, because="padding of events is not supported")
    options.ignore("continuous_usage_stats", False, because="usage is sent only with the last event")
    options.close()
    return streams, reports_usage


def most_characters(model: ModelSettings, prompter: Tokens) -> int:
    """The most characters of a prompt of the model: as many as its longest tokens have bytes.

    There is extra room for the template's own text around the client's.
    """
    return model.context_tokens * prompter.longest + len(prompter.template.source) + MARGIN_CHARACTERS


def refuse_longer(characters: int, most: int, model: ModelSettings, param: str) -> None:
    """Refuses a text that no tokens of the context could spell.

    Raises: ApiError 400 if it cannot fit the context, whatever its tokens are.
    """
    if characters > most:
        message = f"the context is {model.context_tokens} tokens, which can spell at most {most} characters"
        raise ApiError(400, f"{message}; these are {characters}", param=param, code="context_length_exceeded")


def room(model: ModelSettings, prompt: int, max_tokens: int, param: str) -> int:
    """Most tokens of the answer: the requested number, or else all that the context leaves.

    Raises: ApiError 400 if prompt and answer do not fit the context.
    """
    left = model.context_tokens - prompt
    if left < max(max_tokens, 1):
        message = f"the context is {model.context_tokens} tokens; the prompt has {prompt}"
        message += f", and {max_tokens} are asked for" if max_tokens else ""
        raise ApiError(400, message, param=param, code="context_length_exceeded")
    return max_tokens or left
