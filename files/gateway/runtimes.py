"""The LLM engines that answer over HTTP, and the completion request for each.

Both serve OpenAI's completions with fields of their own. Read on 2026-11-27: vLLM 0.26.0, `CompletionRequest` of
`vllm/entrypoints/openai/completion/protocol.py` and `SamplingParams._verify_args`; TensorRT-LLM's main branch of autumn
2026, `CompletionRequest` of `tensorrt_llm/serve/openai_protocol.py`, which refuses every field that it does not know.

An engine answers 400 to some values that OpenAI's clients may send, so a body never has them: `top_p` 0, more
`min_tokens` than `max_tokens`, several sequences without sampling, an empty `cache_salt`, and `stream_options` without
`stream`. Default values are sent as well: vLLM would fill absent fields from the weights' generation_config.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.llm_request import LlmRequest
from gateway.sampling_numbers import SAMPLING_NUMBERS

NEUTRAL = {name: number.neutral for name, number in SAMPLING_NUMBERS.items()}
"""Values that change no probability."""
LEAST_TOP_P = 1e-6
"""Smallest `top_p`: engines refuse 0, which clients send to get the likeliest token."""
IDS_AT_ONCE = 8192
"""Ids of a prompt that are written as text without a pause, so that other requests wait for milliseconds at most."""
Guide = tuple[str, str]


@dataclass(frozen=True)
class Runtime:
    """A program that serves one LLM over HTTP."""

    has_ids: bool
    """True if the engine returns the ids of generated tokens, which log probabilities, gpt-oss and counts of
    reasoning need."""
    has_salts: bool
    has_adapters: bool
    """True if a request selects a LoRA adapter by its name, in place of the model's name."""
    guide: Callable[[Guide, tuple[int, ...]], dict[str, Any]]
    """Function that returns the fields of a completion for a required format, for a release of the program."""


def vllm_guide(guide: Guide, release: tuple[int, ...]) -> dict[str, Any]:
    """vLLM's fields: `structured_outputs` since 0.11, `guided_json` and similar fields before."""
    kind, text = guide
    name = {"json": "json_object", "json_schema": "json"}.get(kind, "regex")
    value: object = True if kind == "json" else text
    if release and release < (0, 11):
        return {f"guided_{name}": value}
    return {"structured_outputs": {name: value}}


def trtllm_guide(guide: Guide, release: tuple[int, ...]) -> dict[str, Any]:
    """The `response_format` of trtllm-serve, without an object around the schema."""
    kind, text = guide
    if kind == "json":
        return {"response_format": {"type": "json_object"}}
    if kind == "regex":
        return {"response_format": {"type": "regex", "regex": text}}
    return {"response_format": {"type": "json_schema", "json_schema": json.loads(text)}}


RUNTIMES = {
    "vllm": Runtime(has_ids=True, has_salts=True, has_adapters=True, guide=vllm_guide),
    "trtllm-serve": Runtime(has_ids=False, has_salts=False, has_adapters=False, guide=trtllm_guide),
}


def release_of(version: str) -> tuple[int, ...]:
    """The first two numbers of a version; empty for "", which stands for the newest."""
    numbers = version.split(".")[:2]
    return tuple(int(number) for number in numbers) if all(map(str.isdecimal, numbers)) else ()


def streams_from(request: LlmRequest) -> bool:
    """True if the engine has to stream: also for a whole answer with log probabilities, whose JSON could be large."""
    return request.streams or request.sampling.logprobs is not None


def fields_of(request: LlmRequest, model: str, runtime: str, version: str = "") -> dict[str, Any]:
    """The completion's fields without its prompt."""
    kind, sampling = RUNTIMES[runtime], request.sampling
    numbers = NEUTRAL | dict(sampling.numbers)
    numbers |= {"top_p": max(numbers["top_p"], LEAST_TOP_P), "top_k": int(numbers["top_k"])}
    body: dict[str, Any] = {"model": request.adapter or model, "max_tokens": request.max_tokens, **numbers}
    if copies_of(request) == 1:
        body["n"] = sampling.sequences
    if sampling.seed is not None:
        body["seed"] = sampling.seed % 2**63
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.min_tokens:
        body["min_tokens"] = min(sampling.min_tokens, request.max_tokens)
    if sampling.stop_ids:
        body["stop_token_ids"] = list(sampling.stop_ids)
    if sampling.ignores_eos:
        body["ignore_eos"] = True
    if sampling.shows_special:
        body["skip_special_tokens"] = False
    if sampling.guide:
        body |= kind.guide(sampling.guide, release_of(version))
    if sampling.logprobs is not None:
        body |= {"logprobs": sampling.logprobs, "return_tokens_as_token_ids": True}
    if kind.has_ids and (sampling.returns_ids or sampling.logprobs is not None):
        body["return_token_ids"] = True
    if request.salt and kind.has_salts:
        body["cache_salt"] = request.salt
    if streams_from(request):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def copies_of(request: LlmRequest) -> int:
    """Number of copies of the prompt in the completion.

    Engines refuse several sequences of a prompt without sampling, but number the answers to several prompts alike.
    """
    return request.sampling.sequences if request.sampling.numbers.get("temperature") == 0 else 1


def body_of(request: LlmRequest, model: str, runtime: str, version: str = "") -> list[bytes]:
    """The completion as JSON, in pieces that each take a fraction of a millisecond."""
    head = json.dumps(fields_of(request, model, runtime, version), separators=(",", ":"))
    prompt, places = request.prompt, range(0, len(request.prompt), IDS_AT_ONCE)
    pieces = [",".join(map(str, prompt[place : place + IDS_AT_ONCE])).encode() for place in places]
    ids = [piece for number, piece in enumerate(pieces) for piece in ((b",", piece) if number else (piece,))]
    copies = copies_of(request)
    if copies == 1:
        return [f'{head[:-1]},"prompt":['.encode(), *ids, b"]}"]
    several = [piece for number in range(copies) for piece in ([b",["] if number else [b"["]) + ids + [b"]"]]
    return [f'{head[:-1]},"prompt":['.encode(), *several, b"]}"]
