"""Compares three policies for growing chats over several engines: round robin, least requests, the gateway's own.

`python -m benchmarks.affinity` asks simulated engines: prefill takes time for each uncached token, one prompt at a
time, and the cache is an LRU of whole blocks. It tests the policy, not a speed. With `--engines URL URL` the same chats
go to servers that speak OpenAI's completions with token ids and a stream (vLLM with `--enable-prefix-caching
--enable-prompt-tokens-details`); `--model` is the name there. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / "files"))

from gateway.routing import BLOCK_TOKENS, Known, chosen, prefix_of

TURNS = 10
SYSTEM_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = 300, 120, 60
APPLICATIONS = 4
"""Number of different system prompts; several chats begin with each."""
VOCABULARY = 10_000
ENGINE = "a model: LRU of blocks, prefill one prompt at a time"


@dataclass
class Answer:
    """Seconds to the first token, cached tokens of the prompt, and the ids of the answer."""

    first_seconds: float
    cached: int
    ids: list[int]


class Engine(Protocol):
    """An engine in the form that policies use."""

    name: str
    outstanding: int
    requests: int
    turn: int

    async def answer(self, ids: Sequence[int]) -> Answer:
        """Returns the answer to a prompt."""
        ...


@dataclass
class Modelled:
    """A simulated engine; `blocks` has the hash of every cached prefix."""

    name: str
    cache_tokens: int
    tokens_a_second: float
    outstanding: int = 0
    requests: int = 0
    turn: int = 0
    blocks: OrderedDict[int, None] = field(default_factory=OrderedDict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, ids: Sequence[int]) -> Answer:
        """Waits for earlier prompts, then for its own uncached tokens."""
        began = time.perf_counter()
        async with self.lock:
            keys = beginnings(ids)
            known = sum(1 for _ in itertools.takewhile(self.blocks.__contains__, keys))
            await asyncio.sleep((len(ids) - known * BLOCK_TOKENS) / self.tokens_a_second)
            first_seconds = time.perf_counter() - began
        answer = [random.Random(keys[-1]).randrange(VOCABULARY) for _ in range(ANSWER_TOKENS)]
        for key in reversed(beginnings([*ids, *answer])):  # the blocks at the prompt's end are evicted first
            self.blocks[key] = None
            self.blocks.move_to_end(key)
        while len(self.blocks) * BLOCK_TOKENS > self.cache_tokens:
            self.blocks.popitem(last=False)
        return Answer(first_seconds, known * BLOCK_TOKENS, answer)


def beginnings(ids: Sequence[int]) -> list[int]:
    """Returns a hash of every whole block with all blocks before it."""
    blocks = (tuple(ids[end - BLOCK_TOKENS : end]) for end in range(BLOCK_TOKENS, len(ids) + 1, BLOCK_TOKENS))
    return list(
        itertools.islice(itertools.accumulate(blocks, lambda key, block: hash((key, block)), initial=0), 1, None)
    )


@dataclass
class Remote:
    """A server at an address that speaks OpenAI's completions."""

    name: str
    client: aiohttp.ClientSession
    model: str
    outstanding: int = 0
    requests: int = 0
    turn: int = 0

    async def answer(self, ids: Sequence[int]) -> Answer:
        """Returns the time of the stream's first event and the cached tokens of its usage, with random answer ids."""
        body = {"model": self.model, "prompt": list(ids), "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
        body |= {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0}
        began, first, cached = time.perf_counter(), 0.0, 0
        async with self.client.post(f"{self.name}/v1/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                first = first or time.perf_counter() - began
                usage = json.loads(line.removeprefix(b"data: ")).get("usage") or {}
                cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or cached
        answer = [random.Random(len(ids)).randrange(VOCABULARY) for _ in range(ANSWER_TOKENS)]
        return Answer(first, cached, answer)


Policy = Callable[[Sequence[Engine], Sequence[int]], Engine]


def round_robin() -> Policy:
    """Returns a policy that takes engines in turn."""
    turns = itertools.count()
    return lambda engines, _ids: engines[next(turns) % len(engines)]


def least_requests() -> Policy:
    """Returns a policy that takes the engine with the fewest requests, among equals the least recently used one."""
    return lambda engines, _ids: min(engines, key=lambda engine: (engine.requests, engine.turn))


def prefix() -> Policy:
    """Returns the gateway's own policy. It learns immediately, as no engine of this benchmark refuses a request."""
    known = Known()

    def choose(engines: Sequence[Engine], ids: Sequence[int]) -> Engine:
        beginning = prefix_of(ids, "tenant", "model")
        engine = chosen(engines, beginning, len(ids) + ANSWER_TOKENS, known.of(beginning))
        known.learn(beginning, engine.name, {known_engine.name for known_engine in engines})
        return engine

    return choose


POLICIES = {"round robin": round_robin, "least requests": least_requests, "prefix": prefix}


async def chats(engines: Sequence[Engine], policy: Policy, count: int, seed: int) -> dict[str, float]:
    """Returns the figures of a number of simultaneous chats, ten turns each."""
    turns, answers, prompts = itertools.count(1), list[Answer](), list[int]()

    async def chat(number: int) -> None:
        of_system, of_chat = random.Random(f"{seed} {number % APPLICATIONS}"), random.Random(f"{seed} chat {number}")
        ids = [of_system.randrange(VOCABULARY) for _ in range(SYSTEM_TOKENS)]
        for _ in range(TURNS):
            ids += [of_chat.randrange(VOCABULARY) for _ in range(QUESTION_TOKENS)]
            engine, weight = policy(engines, ids), len(ids) + ANSWER_TOKENS
            engine.turn = next(turns)
            engine.outstanding, engine.requests = engine.outstanding + weight, engine.requests + 1
            try:
                answer = await engine.answer(ids)
            finally:
                engine.outstanding, engine.requests = engine.outstanding - weight, engine.requests - 1
            answers.append(answer)
            prompts.append(len(ids))
            ids += answer.ids
            await asyncio.sleep(of_chat.expovariate(20))  # time for reading; otherwise the chats would run in step

    began = time.perf_counter()
    await asyncio.gather(*(chat(number) for number in range(count)))
    times = sorted(answer.first_seconds for answer in answers)
    return {
        "first_token_p50_ms": round(statistics.median(times) * 1000, 1),
        "first_token_p99_ms": round(times[int(len(times) * 0.99)] * 1000, 1),
        "cached_share": round(sum(answer.cached for answer in answers) / sum(prompts), 3),
        "seconds": round(time.perf_counter() - began, 1),
    }


async def measured(options: argparse.Namespace) -> dict[str, object]:
    """Returns the figures of each policy with new engines and chats."""
    figures: dict[str, object] = {
        "engine": ", ".join(options.engines) or ENGINE,
        "chats": options.chats,
        "turns": TURNS,
    }
    # Unlimited connections: a request that waits for a connection here would count as slow.
    unlimited = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=unlimited, timeout=aiohttp.ClientTimeout(total=600)) as client:
        for number, (name, policy) in enumerate(POLICIES.items()):
            engines: list[Engine] = [Remote(url.rstrip("/"), client, options.model) for url in options.engines]
            engines = engines or [
                Modelled(f"engine-{place}", options.cache_tokens, options.tokens_a_second)
                for place in range(options.count)
            ]
            # Real engines keep their caches, so each policy gets different prompts.
            seed = options.seed + (number if options.engines else 0)
            figures[name] = await chats(engines, policy(), options.chats, seed)
            print(f"{name:>15}  {figures[name]}", flush=True)
    return {**figures, "engines": len(options.engines) or options.count}


def main() -> None:
    """Measures the policies and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", nargs="+", default=[], metavar="URL")
    parser.add_argument("--model", default="")
    parser.add_argument("--chats", type=int, default=24)
    parser.add_argument("--count", type=int, default=2, help="modelled engines")
    parser.add_argument("--cache-tokens", type=int, default=30_000, help="of a modelled engine")
    parser.add_argument("--tokens-a-second", type=float, default=10_000, help="prefill of a modelled engine")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.engines and not options.model:
        parser.error("--engines needs --model: the name of the served model")
    print(json.dumps(asyncio.run(measured(options))))


if __name__ == "__main__":
    main()
