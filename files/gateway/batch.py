"""Several prompts of one request: answered, counted and limited together; a failure or cancellation ends all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from gateway.events import Event
from gateway.generation import Generation
from gateway.request import Request
from gateway.sampling import Sampling
from gateway.settings import ModelSettings

SEQUENCES_AT_ONCE = 32
"""Answers of one request that servers write at once; the prompts after them wait for their turn."""
EVENTS_AHEAD = 64
"""Events that a request buffers for its client; a full buffer makes the servers wait."""


@dataclass
class Batch:
    """The generations of a request, one for each prompt, on the same engine."""

    generations: list[Generation]

    @property
    def first(self) -> Generation:
        return self.generations[0]

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of all prompts as they arrive; `sequence` is the number of the choice in the whole answer.

        A prompt that fails ends the others, and so does closing this generator.
        Raises: as `Generation.events`.
        """
        count = len(self.generations)
        if count == 1:
            async with aclosing(self.first.events()) as events:
                async for event in events:
                    yield event
            return
        self.first.request.reserve(sum(generation.most_tokens(count) for generation in self.generations))
        sequences, clock = self.first.sampling.sequences, asyncio.get_running_loop().time
        until = clock() + self.first.request.seconds
        places = asyncio.Semaphore(max(SEQUENCES_AT_ONCE // sequences, 1))
        queue: asyncio.Queue[Event | Exception | None] = asyncio.Queue(EVENTS_AHEAD)

        async def answer(number: int, generation: Generation) -> None:
            try:
                async with places, aclosing(generation.reserved_events(max(until - clock(), 0.0))) as events:
                    async for event in events:
                        await queue.put(event._replace(sequence=number * sequences + event.sequence))
            except Exception as error:  # passed on to the reader of the events
                await queue.put(error)
            else:
                await queue.put(None)

        tasks = [asyncio.ensure_future(answer(*numbered)) for numbered in enumerate(self.generations)]
        try:
            while count:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    count -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def batch_of(
    request: Request,
    name: str,
    model: ModelSettings,
    prompts: Sequence[tuple[Sequence[int], int]],
    sampling: Sampling,
    streams: bool,
    reports_usage: bool,
) -> Batch:
    """The generations of these prompts, each with the tokens that its answer may have.

    The engine has room for the longest prompt; the audit's line counts the tokens of all prompts.
    """
    longest = max(prompts, key=lambda prompt: len(prompt[0]))
    placed = Generation(request, name, model, longest[0], sampling, longest[1], streams, reports_usage)
    if len(prompts) == 1:
        return Batch([placed])
    generations = [
        Generation(request, name, model, tokens, sampling, most, streams, reports_usage, engine=placed.model)
        for tokens, most in prompts
    ]
    request.exchange.record.prompt_tokens = sum(len(tokens) for tokens, _ in prompts)
    return Batch(generations)
