"""Sampling of a chat: the fields of OpenAI's request, and the tensors for the LLM.

The tensors are those of the LLM slot's contract. The slot's own defaults (32 tokens, no sampling) are not those that
OpenAI's clients expect, so the tensors are always sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.fields import FieldError, Fields
from gateway.sampling_numbers import MOST_WHOLE, SAMPLING_NUMBERS
from gateway.schema_size import SchemaError, schema_size
from gateway.tensors import Input, boolean, fp32, int32s, strings, uint64

MOST_STOPS = 16
MOST_STOP = 4096
"""Characters of a stop text: engines tokenise it, and search for it in each piece of an answer."""
MOST_SEQUENCES = 128
MOST_SEED = 2**63 - 1
MOST_SCHEMA = 65_536
"""Characters of a schema: the engine compiles the schema before the first token, while other requests wait."""
MOST_SCHEMA_SIZE = 100_000
"""Largest size of a schema with its repetitions unrolled."""
MOST_LOGPROBS = 20
MOST_CHOICES = 1024


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a request, for the LLM's tensors. `max_tokens` 0 means the rest of the context."""

    numbers: Mapping[str, float]
    sequences: int
    seed: int | None
    stop: tuple[str, ...]
    max_tokens: int
    min_tokens: int
    guide: tuple[str, str] | None
    """The kind of the guide that limits the answer, and the guide's text."""
    logprobs: int | None = None
    """Number of alternatives reported beside each token; None: no log probabilities."""
    shows_special: bool = False
    """True if the text includes special tokens: some models begin a tool call with a special token."""
    returns_ids: bool = False
    stop_ids: tuple[int, ...] = ()
    ignores_eos: bool = False
    """True if the answer continues to `max_tokens`; only HTTP engines support this, for their benchmark."""

    def tensors(self, max_tokens: int) -> list[Input]:
        """The inputs of the slot's contract."""
        inputs = [int32s("sampling_param_max_tokens", [max_tokens])]
        for name, value in self.numbers.items():
            full_name = f"sampling_param_{name}"
            is_whole = SAMPLING_NUMBERS[name].is_whole
            inputs.append(int32s(full_name, [int(value)]) if is_whole else fp32(full_name, value))
        if self.sequences > 1:
            inputs.append(int32s("sampling_param_n", [self.sequences]))
        if self.seed is not None:
            inputs.append(uint64("sampling_param_seed", self.seed))
        if self.stop:
            inputs.append(strings("sampling_param_stop", self.stop))
        if self.min_tokens:
            inputs.append(int32s("sampling_param_min_tokens", [self.min_tokens]))
        if self.guide:
            kind, text = self.guide
            inputs.append(strings("guided_decoding_guide_type", [kind]))
            inputs += [strings("guided_decoding_guide", [text])] if text else []
        if self.logprobs is not None:
            inputs.append(int32s("sampling_param_logprobs", [self.logprobs]))
        if self.logprobs is not None or self.returns_ids:
            inputs.append(boolean("return_token_ids", True))
        if self.stop_ids:
            inputs.append(int32s("sampling_param_stop_token_ids", self.stop_ids))
        if self.shows_special:
            inputs.append(boolean("sampling_param_skip_special_tokens", False))
        return [*inputs, *(boolean(name, True) for name in ("return_counts", "return_finish_reason"))]


def sampling_of(fields: Fields, defaults: Mapping[str, float], context: int, no_guide: str = "") -> Sampling:
    """The sampling in the fields; `defaults` are the weights' own, `no_guide` is the reason why there can be no guide.

    Raises: FieldError for values out of range, and for features that the model lacks.
    """
    numbers = {"temperature": 1.0, **defaults}
    requested = {name: _requested(fields, name) for name in SAMPLING_NUMBERS}
    if requested["top_k"] is not None and requested["top_k"] < 1:  # vLLM's value for all tokens
        requested["top_k"] = None
        numbers.pop("top_k", None)
    numbers |= {name: float(value) for name, value in requested.items() if value is not None}
    if numbers["temperature"] == 0:  # greedy: narrowing has no effect, and TensorRT-LLM refuses some of these values
        numbers = {name: value for name, value in numbers.items() if name not in ("top_p", "top_k", "min_p")}
    seed_name = "random_seed" if fields.has("random_seed") else "seed"  # Mistral's name, and OpenAI's
    seed = fields.maybe_whole(seed_name, -MOST_SEED, MOST_SEED)
    most = _most_tokens(fields)
    return Sampling(
        numbers=numbers,
        sequences=fields.whole("n", 1, MOST_SEQUENCES, 1),
        seed=seed,
        stop=_stops(fields),
        max_tokens=most,
        min_tokens=fields.whole("min_tokens", 0, most or context, 0),
        guide=_guide(fields, no_guide),
    )


def _requested(fields: Fields, name: str) -> float | None:
    number = SAMPLING_NUMBERS[name]
    if number.is_whole:
        return fields.maybe_whole(name, int(number.low), int(number.high))
    return fields.number(name, number.low, number.high)


def _most_tokens(fields: Fields) -> int:
    new, old = (
        fields.maybe_whole("max_completion_tokens", 1, MOST_WHOLE),
        fields.maybe_whole("max_tokens", 1, MOST_WHOLE),
    )
    if new is not None and old is not None and new != old:
        raise FieldError("max_tokens", "`max_tokens` and `max_completion_tokens` have different values")
    return new or old or 0


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.value("stop")
    listed = [] if value is None else [value] if isinstance(value, str) else value
    is_list = isinstance(listed, list) and len(listed) <= MOST_STOPS
    if not is_list or not all(isinstance(text, str) and 0 < len(text) <= MOST_STOP for text in listed):
        wanted = f"a text, or a list of up to {MOST_STOPS} texts, none of them empty or of more than {MOST_STOP}"
        raise fields.wrong("stop", f"{wanted} characters")
    return tuple(listed)


def _guide(fields: Fields, no_guide: str) -> tuple[str, str] | None:
    if (guide := _structured(fields)) is not None:
        if no_guide:
            raise FieldError(guide[0], f"`{guide[0]}`: {no_guide}", "unsupported")
        if fields.has("response_format"):
            raise FieldError("response_format", f"`response_format` and `{guide[0]}` both set a format")
        return guide[1]
    if not fields.has("response_format"):
        return None
    form = fields.inner("response_format")
    kind = form.text("type", choices=("text", "json_object", "json_schema", "json", "regex"))
    schema: object = None
    if kind == "regex":  # Hugging Face's form
        pattern = form.text("value")
        form.close()
        if no_guide:
            raise FieldError("response_format", f"`response_format`: {no_guide}", "unsupported")
        return ("regex", _pattern(form, "value", pattern))
    if kind == "json" or (kind == "json_object" and form.has("schema")):
        schema, kind = _schema_of(form, "value" if form.has("value") else "schema"), "json_schema"
    elif kind == "json_schema":
        named = form.inner("json_schema")
        named.text("name")
        named.text("description", "")
        named.flag("strict", False)  # without effect: every answer keeps the schema
        schema = _schema_of(named, "schema")
        named.close()
    form.close()
    if kind == "text":
        return None
    if no_guide:
        raise FieldError("response_format", f"`response_format`: {no_guide}", "unsupported")
    return ("json", "") if kind == "json_object" else ("json_schema", json.dumps(schema, ensure_ascii=False))


def _schema_of(fields: Fields, name: str) -> object:
    """The JSON schema in a field, within the bounds that an engine can compile."""
    schema = fields.value(name)
    if not isinstance(schema, dict):
        raise fields.wrong(name, "a JSON schema")
    if len(json.dumps(schema)) > MOST_SCHEMA:
        raise fields.wrong(name, f"a JSON schema of at most {MOST_SCHEMA} characters")
    try:
        size = schema_size(schema)
    except SchemaError as error:
        raise fields.wrong(name, f"a JSON schema that an answer can be limited to: {error}") from None
    if size > MOST_SCHEMA_SIZE:
        raise fields.wrong(name, f"a JSON schema whose repetitions make no more than {MOST_SCHEMA_SIZE} rules")
    return schema


def _pattern(fields: Fields, name: str, pattern: str) -> str:
    if len(pattern) > MOST_SCHEMA:
        raise fields.wrong(name, f"a regular expression of at most {MOST_SCHEMA} characters")
    try:
        size = schema_size({"pattern": pattern})
    except SchemaError as error:
        raise fields.wrong(name, f"a regular expression that an answer can be limited to: {error}") from None
    if size > MOST_SCHEMA_SIZE:
        raise fields.wrong(name, f"a regular expression whose repetitions make no more than {MOST_SCHEMA_SIZE} rules")
    return pattern


def _structured(fields: Fields) -> tuple[str, tuple[str, str]] | None:
    """vLLM's own forms of a guide, the older and the newer: the field's name, and the guide."""
    forms = [("structured_outputs", fields.inner("structured_outputs"), "")] if fields.has("structured_outputs") else []
    forms.append(("", fields, "guided_"))
    guides: list[tuple[str, tuple[str, str]]] = []
    for outer, section, prefix in forms:
        for name in ("json", "regex", "choice", "json_object"):
            field = f"{prefix}{name}"
            if not section.has(field):
                continue
            if name == "json":
                guide = ("json_schema", json.dumps(_schema_of(section, field), ensure_ascii=False))
            elif name == "regex":
                guide = ("regex", _pattern(section, field, section.text(field)))
            elif name == "choice":
                words = section.texts(field, MOST_CHOICES)
                if sum(map(len, words)) > MOST_SCHEMA:
                    raise section.wrong(field, f"choices of at most {MOST_SCHEMA} characters")
                guide = ("regex", _pattern(section, field, "|".join(map(re.escape, words))))
            elif section.flag(field):
                guide = ("json", "")
            else:
                continue
            guides.append((outer or field, guide))
        for name in ("grammar", "structural_tag"):
            section.only(f"{prefix}{name}", because="only schemas, regular expressions and choices limit answers")
        if outer:
            section.close()
    for name in ("guided_decoding_backend", "guided_whitespace_pattern"):
        fields.ignore(name, because="the backend of guided decoding cannot be chosen")
    if len(guides) > 1:
        raise FieldError(guides[1][0], f"`{guides[1][0]}`: an answer can have only one format", "invalid_value")
    return guides[0] if guides else None


def endless(fields: Fields, sampling: Sampling, is_over_http: bool) -> Sampling:
    return replace(sampling, ignores_eos=fields.flag("ignore_eos", False)) if is_over_http else sampling


def refuse_logprobs(sampling: Sampling, has_ids: bool) -> None:
    """Refuses log probabilities if the engine returns no token ids.

    Raises: FieldError.
    """
    if sampling.logprobs is not None and not has_ids:
        raise FieldError("logprobs", "`logprobs`: this model's engine does not return token ids", "unsupported")


def logprobs_of(fields: Fields) -> int | None:
    """Number of alternative tokens beside each token of the answer; None if no log probabilities are requested."""
    wanted, others = fields.flag("logprobs", False), fields.whole("top_logprobs", 0, MOST_LOGPROBS, 0)
    if others and not wanted:
        raise FieldError("top_logprobs", "`top_logprobs` requires `logprobs` to be true")
    return others if wanted else None
