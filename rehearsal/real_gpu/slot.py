"""Streams of the deployed LLM, event by event: the content of each answer, and cancelling by disconnecting.

An answer is right if its events together have the ids, counts and reasons of the contract
(deploy/models/llm_contract.py). Its text is compared with the same request in one piece; a 16-bit network may choose
another token in another batch, so that share is reported and not judged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.grpc import aio as triton

from deploy.slices.host import ModelSlice

ANSWER_SECONDS = 60
RETURNED = ("return_token_ids", "return_counts", "return_finish_reason")
WORDS = ("river", "stone", "seven", "paper", "window", "garden", "north", "silver")


@dataclass
class Streamed:
    """The content of the events of an answer."""

    texts: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    output_tokens: int = -1
    finals: int = 0
    """Number of responses that Triton marked as the last."""
    late: int = 0
    """Number of events after the sequence's last event."""

    @property
    def text(self) -> str:
        return "".join(self.texts)


def prompt(number: int) -> str:
    """Returns words that no other number has in this order, for up to 8 ** 6 numbers."""
    return " ".join(WORDS[number >> 3 * place & 7] for place in range(6)) + f" {number}"


def faults(answer: Streamed, most: int, events: range) -> list[str]:
    """Returns faults of an answer of at most `most` tokens in a permitted number of events."""
    wrong = []
    if not 0 < len(answer.ids) == answer.output_tokens <= most:
        wrong.append(f"{len(answer.ids)} ids, {answer.output_tokens} counted, {most} asked for")
    if len(answer.reasons) != 1 or (answer.reasons == ["length"]) != (answer.output_tokens == most):
        wrong.append(f"finish reasons {answer.reasons} after {answer.output_tokens} of {most} tokens")
    if (answer.finals, answer.late) != (1, 0):
        wrong.append(f"{answer.finals} final responses, {answer.late} events after the last one")
    if len(answer.texts) not in events:
        wrong.append(f"{len(answer.texts)} events, wanted {events.start} to {events.stop - 1}")
    return wrong


def counted(address: str, model: ModelSlice, answers: int, at_once: int) -> dict[str, Any]:
    """Asks `answers` prompts streamed and in one piece, `at_once` at a time; returns events, tokens and faults."""
    return asyncio.run(_counted(address, model.name, answers, at_once))


async def _counted(address: str, name: str, answers: int, at_once: int) -> dict[str, Any]:
    places, wrong = asyncio.Semaphore(at_once), list[str]()
    events, same, tokens = list[int](), 0, 0

    async def client_loop(client: triton.InferenceServerClient, number: int) -> None:
        nonlocal same, tokens
        most = 1 + number % 48
        async with places:
            streamed = await collected(client, name, inputs(prompt(number), most, streaming=True))
            whole = await collected(client, name, inputs(prompt(number), most, streaming=False))
        events.append(len(streamed.texts))
        tokens += len(streamed.ids)
        same += (streamed.text, streamed.ids) == (whole.text, whole.ids)
        problems = faults(streamed, most, range(2 if most > 8 else 1, most + 2)) + faults(whole, most, range(1, 2))
        wrong.extend(f"answer {number} of {most} tokens: {fault}" for fault in problems)

    began = time.monotonic()
    async with triton.InferenceServerClient(address) as client:
        await asyncio.gather(*(client_loop(client, number) for number in range(answers)))
    return {
        "answers": len(events),
        "events": sum(events),
        "tokens": tokens,
        "same_in_one_piece": same,
        "events_per_token": round(sum(events) / max(1, tokens), 3),
        "at_once": at_once,
        "seconds": round(time.monotonic() - began, 1),
        "wrong": wrong[:10],
        "passed": not wrong and len(events) == answers,
    }


def left(address: str, model: ModelSlice, times: int, running: Callable[[], float]) -> dict[str, Any]:
    """Runs clients that leave after one event; returns the longest wait in seconds until no request runs."""
    most = int(str(model.settings["max_seq_len"])) // 2
    waits = asyncio.run(_left(address, model.name, most, times, running))
    return {"times": times, "longest_wait_seconds": round(max(waits), 3), "passed": max(waits) < 1}


async def _left(address: str, name: str, most: int, times: int, running: Callable[[], float]) -> list[float]:
    waits = []
    for number in range(times):
        async with triton.InferenceServerClient(address) as client:
            events = stream(client, name, inputs(prompt(number), most, streaming=True))
            await anext(events)
            await events.aclose()
            began = time.monotonic()
            while running() and time.monotonic() - began < ANSWER_SECONDS:
                await asyncio.sleep(0.02)
            waits.append(time.monotonic() - began)
    return waits


async def collected(client: triton.InferenceServerClient, name: str, inputs: list[InferInput]) -> Streamed:
    """Returns all events of one answer. Raises: InferenceServerException from Triton, TimeoutError after a minute."""
    streamed_answer = Streamed()
    async with asyncio.timeout(ANSWER_SECONDS):
        async for result in stream(client, name, inputs):
            parameters = result.get_response().parameters
            streamed_answer.finals += parameters["triton_final_response"].bool_param
            text = result.as_numpy("text_output")
            if text is None or not text.size:
                continue
            streamed_answer.late += bool(streamed_answer.reasons)
            streamed_answer.texts.append(text.reshape(-1)[0].decode())
            streamed_answer.ids.extend(map(int, result.as_numpy("token_ids").reshape(-1)))
            reason = result.as_numpy("finish_reason").reshape(-1)[0].decode()
            if reason:
                streamed_answer.reasons.append(reason)
                streamed_answer.output_tokens = int(result.as_numpy("num_output_tokens").reshape(-1)[0])
    return streamed_answer


async def stream(client: triton.InferenceServerClient, name: str, inputs: list[InferInput]) -> AsyncIterator[Any]:
    """Yields responses of one request on a separate stream; closing the iterator closes the stream."""

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": name, "inputs": inputs, "enable_empty_final_response": True}

    answers = client.stream_infer(requests())
    try:
        async for result, error in answers:
            if error:
                raise error
            yield result
    finally:
        answers.cancel()


def inputs(text: str, most: int, streaming: bool) -> list[InferInput]:
    """Returns a greedy request for at most `most` tokens with ids, counts and the finish reason."""
    values: dict[str, tuple[str, Any]] = {
        "text_input": ("BYTES", np.array([text.encode()], dtype=object)),
        "streaming": ("BOOL", np.array([streaming])),
        "sampling_param_max_tokens": ("INT32", np.array([most], dtype=np.int32)),
        "sampling_param_exclude_input_from_output": ("BOOL", np.array([True])),
    } | {name: ("BOOL", np.array([True])) for name in RETURNED}
    return [InferInput(name, [1], kind).set_data_from_numpy(value) for name, (kind, value) in values.items()]
