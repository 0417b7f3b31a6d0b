"""Sends an LLM the prompts of a replay, and measures it under a load of the same prompts.

Prompts are sent greedily and one at a time: a batch changes the order of sums, and with it late tokens. Tasks are
sampled with one seed. Then as many prompts as the replay has `streams` are sent at once, to measure the speed of tokens
and the time to the first token. There are two dialects: OpenAI's completions, and the streams of Triton's LLM slot.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from host.systemd import say, words

SEED = 0
ROUNDS = 2
"""Prompts of each stream of the load, at least."""
SILENCE_SECONDS, LATE_SECONDS = 300, 60
"""Seconds between two events of an answer; fewer near the end of the time, so that this program's reason precedes
systemd's."""
NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
"""Values that change no probability, as the gateway sends them; else vLLM reads the weights' generation_config.json."""
MOST_LINE, MOST_ANSWER = 2**20, 2**24
"""Bytes of an event, and of an answer: limits, because this program runs as root and the engine's container does not.
"""
BUSY = (429, 503)
FULL = "Exceeds maximum queue size"


class Unanswered(Exception):
    """A prompt of the replay has no answer; the text is the reason."""


class Engine(Protocol):
    """A program that serves LLMs, as `prove` reaches it."""

    base: str
    opener: urllib.request.OpenerDirector

    def pause(self, problem: str) -> None:
        """Waits a second, unless the time is over."""


class Dialect(Protocol):
    """The form of requests and answers of one model of an engine."""

    path: str

    def body(self, prompt: str, most: int, is_sampled: bool) -> dict[str, Any]:
        """The request."""

    def read(self, event: Mapping[str, Any], reply: Reply) -> None:
        """Adds an event of the stream to the reply."""


@dataclass
class Reply:
    """An answer so far. `made` is the engine's count of its tokens, 0 if it reports none."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    made: int = 0
    events: int = 0
    first_seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.made or len(self.ids) or self.events


class Completions:
    """`/v1/completions` of vLLM and trtllm-serve. Only vLLM returns ids, and trtllm-serve refuses unknown fields."""

    path = "/v1/completions"

    def __init__(self, model: str, runtime: str) -> None:
        self.model, self.more = model, {"return_token_ids": True} if runtime == "vllm" else {}

    def body(self, prompt: str, most: int, is_sampled: bool) -> dict[str, Any]:
        """A streamed completion with its usage."""
        sampling = {**NEUTRAL, "repetition_penalty": 1.0, "temperature": 1.0 if is_sampled else 0.0, "seed": SEED}
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self.model, "prompt": prompt, "max_tokens": most, **sampling, **stream, **self.more}

    def read(self, event: Mapping[str, Any], reply: Reply) -> None:
        """Adds the text and the ids of an event, or the count of the last one."""
        for choice in event.get("choices") or []:
            reply.text += choice.get("text") or ""
            reply.ids += [int(identity) for identity in choice.get("token_ids") or []]
        if event.get("usage"):
            reply.made = int(event["usage"]["completion_tokens"])


class Generate:
    """Triton's generate extension before the slot of an LLM (deploy/models/llm_contract.py)."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        name = f"{model['name']}_completion" if model.get("path") == "engine" else model["name"]
        self.streams = bool(model["decoupled"])
        self.path = f"/v2/models/{name}/generate{'_stream' if self.streams else ''}"

    def body(self, prompt: str, most: int, is_sampled: bool) -> dict[str, Any]:
        """A request in the slot's tensors."""
        sampling = {"max_tokens": most, "temperature": 1.0 if is_sampled else 0.0, "seed": SEED}
        named = {f"sampling_param_{name}": value for name, value in sampling.items()}
        return {
            "text_input": prompt,
            "sampling_param_exclude_input_from_output": True,
            "streaming": self.streams,
        } | named

    def read(self, event: Mapping[str, Any], reply: Reply) -> None:
        """Adds the text of an event."""
        if "error" in event:
            raise Unanswered(words(str(event["error"]), 600))
        text = event.get("text_output") or ""
        reply.text += "".join(text) if isinstance(text, list) else text


def measure(engine: Engine, dialect: Dialect, replay: Mapping[str, Any], until: float) -> dict[str, Any]:
    """All answers, and the figures of the load. Raises Unanswered, also if `until` of the clock has passed."""
    questions = [("prompt", prompt) for prompt in replay["prompts"]]
    questions += [("task", task["prompt"]) for task in replay["tasks"]]
    answers = []
    for number, (kind, prompt) in enumerate(questions, start=1):
        say(f"replay: {kind} {number} of {len(questions)}")
        reply = ask(engine, dialect, prompt, replay["max_tokens"], kind == "task", until)
        answers.append({"kind": kind, "text": reply.text, "ids": reply.ids})
    return {"answers": answers, "load": load(engine, dialect, replay, until)}


def load(engine: Engine, dialect: Dialect, replay: Mapping[str, Any], until: float) -> dict[str, Any]:
    """Tokens a second, and milliseconds to the first token, of the prompts sent by all streams at once.

    A prompt of every stream goes ahead and is not counted, because an engine's first batch compiles kernels: 2.8 s of
    vLLM, by which FP8 was ten and twenty times as fast as the earlier release (H200, H100, 2026-11-28).
    """
    streams, prompts = replay["streams"], list(replay["prompts"])
    asked_prompts = [prompts[place % len(prompts)] for place in range(max(len(prompts), ROUNDS * streams))]
    say(f"replay: {len(asked_prompts)} prompts by {streams} streams")
    with ThreadPoolExecutor(streams) as threads:

        def replies_to(listed: list[str]) -> list[Reply]:
            most = replay["max_tokens"]
            return [
                answer.result()
                for answer in [threads.submit(ask, engine, dialect, prompt, most, False, until) for prompt in listed]
            ]

        replies_to(asked_prompts[:streams])
        began = time.monotonic()
        replies = replies_to(asked_prompts)
        seconds = time.monotonic() - began
    firsts = sorted(1000 * reply.first_seconds for reply in replies)
    return {
        "streams": streams,
        "requests": len(replies),
        "tokens_per_second": round(sum(reply.tokens for reply in replies) / max(seconds, 1e-9), 1),
        "first_token_p50_ms": round(statistics.median(firsts), 1),
        "first_token_p95_ms": round(firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))], 1),
    }


def ask(engine: Engine, dialect: Dialect, prompt: str, most: int, is_sampled: bool, until: float) -> Reply:
    """The answer to one prompt; waits while clients keep the queue full."""
    body = dialect.body(prompt, most, is_sampled)
    while True:
        if time.monotonic() > until:
            raise Unanswered("the replay did not finish within the time limit (start_seconds)")
        began, reply = time.monotonic(), Reply()
        try:
            for event in events(engine, dialect.path, body, min(SILENCE_SECONDS, until - began + LATE_SECONDS)):
                if time.monotonic() > until + LATE_SECONDS:
                    raise Unanswered("an answer did not finish within the time limit (start_seconds)")
                reply.first_seconds = reply.first_seconds or time.monotonic() - began
                reply.events += 1
                dialect.read(event, reply)
            return reply
        except urllib.error.HTTPError as error:
            content = error.read(MOST_LINE).decode(errors="replace")
            if error.code not in BUSY and FULL not in content:
                raise Unanswered(f"{error.code}: {words(content, 600)}") from None
        except Unanswered as problem:
            if FULL not in str(problem):
                raise
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(words(str(error) or type(error).__name__)) from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Unanswered(words(str(error), 200) or type(error).__name__) from None
        engine.pause("clients keep its queue full")


def events(engine: Engine, path: str, body: Mapping[str, Any], seconds: float) -> Iterator[dict[str, Any]]:
    """The events of a streamed answer; a whole answer counts as one event."""
    request = urllib.request.Request(
        engine.base + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with engine.opener.open(request, timeout=seconds) as answer:
        if "event-stream" not in (answer.headers.get("Content-Type") or ""):
            yield json.loads(bounded(answer.read(MOST_ANSWER + 1), MOST_ANSWER))
            return
        size = 0
        while line := answer.readline(MOST_LINE + 1):
            size += len(bounded(line, MOST_LINE))
            if size > MOST_ANSWER:
                raise Unanswered(f"an answer of more than {MOST_ANSWER} bytes")
            content = line[5:].strip() if line.startswith(b"data:") else b""
            if content and content != b"[DONE]":
                yield json.loads(content)


def bounded(content: bytes, most: int) -> bytes:
    """The content, of at most `most` bytes. Raises: Unanswered."""
    if len(content) > most:
        raise Unanswered(f"more than {most} bytes, more than an answer can have")
    return content
