"""The input tensors of a request as plain values, validated without the engine.

An unknown input is a `Mistake`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SAMPLING = "sampling_param_"
LISTS = ("text_input", "prompt_token_ids", "sampling_param_stop", "sampling_param_stop_token_ids")
GUIDES = {
    "json": "json_object",
    "json_schema": "json",
    "regex": "regex",
    "ebnf_grammar": "grammar",
    "structural_tag": "structural_tag",
}
"""Types of guides, and their fields in TensorRT-LLM's GuidedDecodingParams."""
OURS = ("stop", "logprobs", "exclude_input_from_output")
"""Sampling inputs that are not passed to the engine unchanged."""


class Mistake(Exception):
    """The request is invalid; the client has to change it."""


class Unsupported(Exception):
    """The request is valid, but this release of TensorRT-LLM or this model cannot answer it."""


@dataclass
class LlmRequest:
    """A request to an LLM.

    `sampling` holds the fields of TensorRT-LLM's SamplingParams that the request names. `stops` are strings that end
    the text. `logprobs` is the number of alternatives reported for each token, None for no probabilities.
    `echoed` is put before the text. `guide` is a field of GuidedDecodingParams and its value.
    """

    prompt: str | list[int]
    sampling: dict[str, Any]
    stops: list[str]
    echoed: str
    logprobs: int | None
    streaming: bool
    guide: tuple[str, Any] | None
    adapter: str
    salt: str
    wants: frozenset[str] = field(default_factory=frozenset)


def read(tensors: Iterable[Any]) -> LlmRequest:
    """The request with these input tensors. Raises `Mistake`."""
    values = {name: _values(name, tensor) for tensor in tensors for name in [tensor.name()]}
    sampling = {
        name.removeprefix(SAMPLING): values.pop(name) for name in [name for name in values if name.startswith(SAMPLING)]
    }
    stops, logprobs, excluded = (sampling.pop(name, None) for name in OURS)
    text, ids = values.pop("text_input", None), values.pop("prompt_token_ids", None)
    request = LlmRequest(
        prompt=_prompt(text, ids),
        sampling=_sampled(sampling),
        stops=[stop for stop in stops or [] if stop],
        echoed=text[0] if text and not excluded else "",
        logprobs=logprobs,
        streaming=bool(values.pop("streaming", False)),
        guide=_guide(values.pop("guided_decoding_guide_type", ""), values.pop("guided_decoding_guide", "")),
        adapter=values.pop("lora_name", ""),
        salt=values.pop("cache_salt", ""),
        wants=frozenset(name.removeprefix("return_") for name in list(values) if _is_wish(name) and values.pop(name)),
    )
    unknown = [name for name in values if not _is_wish(name)]
    if unknown:
        raise Mistake(f"{', '.join(unknown)}: no input of this model")
    return request


def _is_wish(name: str) -> bool:
    return name.startswith("return_")


def _values(name: str, tensor: Any) -> Any:
    """The list of a tensor's values; a single value is returned without a list."""
    values = tensor.as_numpy().reshape(-1).tolist()
    if values and isinstance(values[0], bytes):
        try:
            values = [value.decode() for value in values]
        except UnicodeDecodeError:
            raise Mistake(f"{name} is not UTF-8") from None
    if name in LISTS:
        return values
    if len(values) != 1:
        raise Mistake(f"{name} takes one value, {len(values)} were given")
    return values[0]


def _prompt(text: list[str] | None, ids: list[int] | None) -> str | list[int]:
    if (text is None) == (ids is None):
        raise Mistake("a request has either text_input or prompt_token_ids")
    if text is not None:
        if len(text) != 1:
            raise Mistake(f"one prompt per request, {len(text)} were given")
        return text[0]
    if not ids:
        raise Mistake("prompt_token_ids is empty")
    if min(ids) < 0:
        raise Mistake(f"prompt_token_ids has {min(ids)}, which is no token")
    return ids


def _sampled(sampling: dict[str, Any]) -> dict[str, Any]:
    """Without `top_k` and `top_p`, TensorRT-LLM ignores the temperature and takes the likeliest token (up to 1.1)."""
    if sampling.get("max_tokens", 1) < 1:
        raise Mistake(f"require max_tokens >= 1, got max_tokens={sampling['max_tokens']}")
    temperature = sampling.get("temperature")
    if temperature is not None and temperature < 0:
        raise Mistake(f"require temperature >= 0, got temperature={temperature}")
    if not 0 <= sampling.get("top_p", 1) <= 1:
        raise Mistake(f"require 0 <= top_p <= 1, got top_p={sampling['top_p']}")
    if temperature == 0:
        return {
            name: value for name, value in sampling.items() if name not in ("temperature", "top_k", "top_p", "min_p")
        }
    if temperature is not None and not {"top_k", "top_p"} & set(sampling):
        return {**sampling, "top_p": 1.0}
    return sampling


def _guide(kind: str, guide: str) -> tuple[str, Any] | None:
    if not kind:
        if guide:
            raise Mistake("guided_decoding_guide wants a guided_decoding_guide_type")
        return None
    if kind not in GUIDES:
        raise Mistake(f"guided_decoding_guide_type {kind!r} is not one of {', '.join(GUIDES)}")
    if bool(guide) == (kind == "json"):
        raise Mistake(f"guided_decoding_guide_type {kind!r} {'takes no' if guide else 'wants a'} guided_decoding_guide")
    return GUIDES[kind], guide or True
