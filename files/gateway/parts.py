"""A request with more texts than an encoder takes at once, sent in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.request import Request
from gateway.settings import ModelSettings
from gateway.tensors import Input, Outputs

AT_ONCE = 4
"""Parts of one request that Triton has at once."""

CHARACTERS_A_TOKEN = 4
"""Approximate; it weighs the load of servers, and no request is refused by it."""

Options = dict[str, str | int | bool]

ADDED_TOKENS = 16
"""Most that an encoder adds to a text: marks, and the prefix of a task."""


def most_tokens(model: ModelSettings, texts: Sequence[str], query: str = "") -> int:
    """Most tokens of the texts, each read with the query: at most their bytes, and the model's limit."""
    beside, most = len(query.encode()) + ADDED_TOKENS, model.max_tokens
    return sum(most if len(text) + beside >= most else min(len(text.encode()) + beside, most) for text in texts)


async def in_parts(
    request: Request,
    model: ModelSettings,
    texts: Sequence[str],
    options: Options,
    tensors: Callable[[Sequence[str]], list[Input]],
) -> list[Outputs]:
    """The outputs of each part of the texts, in order; `tensors` makes a part's inputs. A failing part ends all.

    Raises: UpstreamError, ApiError.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(part: Sequence[str]) -> Outputs:
        async with places:
            if request.is_large:
                await request.gateway.pauses.pause()
            work = request.work(model, sum(len(text) for text in part) // CHARACTERS_A_TOKEN + len(part))
            return await request.gateway.fleet.infer(work, tensors(part), options, request.seconds)

    if len(texts) <= model.max_items:
        return [await ask(texts)]
    starts = range(0, len(texts), model.max_items)
    tasks = [asyncio.ensure_future(ask(texts[start : start + model.max_items])) for start in starts]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
