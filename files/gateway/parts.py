"""A request with more texts than an encoder takes at once, sent in parts."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable, Sequence

from gateway.request import Request
from gateway.settings import ModelSettings
from gateway.tensors import Input, Output, Outputs
from gateway.triton import readable

AT_ONCE = 4
"""Parts of one request that Triton processes at the same time."""

CHARACTERS_A_TOKEN = 4
"""Approximate characters per token, used only to weigh the load of servers."""

Options = dict[str, str | int | bool]

ADDED_TOKENS = 16
"""Most tokens that an encoder adds to a text: marks, and the prefix of a task."""


def most_tokens(model: ModelSettings, texts: Sequence[str], query: str = "") -> int:
    """Most tokens of the texts, each read with the query: at most their bytes, and the model's limit."""
    beside, most = len(query.encode()) + ADDED_TOKENS, model.max_tokens
    return sum(most if len(text) + beside >= most else min(len(text.encode()) + beside, most) for text in texts)


def checked(outputs: Outputs, model: ModelSettings, count: int) -> Outputs:
    """The outputs with a row of finite numbers for each text, and counts of tokens that a text of the model can have.

    Raises: ValueError, KeyError or IndexError for any others. A key pays for the counts.
    """
    name = "embeddings" if model.kind == "embedder" else "scores"
    numbers, width = outputs[name].floats(), outputs[name].shape[-1] if model.kind == "embedder" else 1
    if width < 1 or len(numbers) != count * width or not math.isfinite(sum(numbers)):
        raise ValueError("the number of rows differs from the number of texts")
    tokens = array("i", [min(max(tokens, 0), model.max_tokens) for tokens in outputs["token_counts"].ints()])
    if len(tokens) != count:
        raise ValueError("the number of token counts differs from the number of texts")
    return {**outputs, "token_counts": Output("INT32", (1, count), tokens.tobytes())}


async def in_parts(
    request: Request,
    model: ModelSettings,
    texts: Sequence[str],
    options: Options,
    tensors: Callable[[Sequence[str]], list[Input]],
) -> tuple[list[Outputs], int]:
    """The outputs of each part of the texts, in order, and the number of tokens read. A failing part ends all.

    `tensors` makes a part's inputs.

    Raises: UpstreamError, ApiError.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(part: Sequence[str]) -> Outputs:
        async with places:
            if request.is_large:
                await request.gateway.pauses.pause()
            work = request.work(model, sum(len(text) for text in part) // CHARACTERS_A_TOKEN + len(part))
            outputs = await request.gateway.fleet.infer(work, tensors(part), options, request.seconds)
            return readable(lambda: checked(outputs, model, len(part)))

    starts = range(0, len(texts), model.max_items)
    parts = (texts[start : start + model.max_items] for start in starts)
    tasks = [asyncio.ensure_future(ask(part)) for part in parts] if len(starts) > 1 else []
    try:
        outputs = await asyncio.gather(*tasks) if tasks else [await ask(texts)]
    finally:
        for task in tasks:
            task.cancel()
    return list(outputs), sum(sum(output["token_counts"].ints()) for output in outputs)
