"""Tells which tokenizers are so simple that short texts need no separate process.

A tokenizer comes with the weights: its rules can make a text grow a hundred thousandfold, and its regular expressions
can take minutes for a line. 500 characters took 193 s, in which no stream continued (tokenizers 0.23.3, 2026-11-28).
A harmless one has only the steps here, whose work is linear in the text, and splits only by published expressions;
every other one works in `prompt_worker` alone, within its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_STEPS = 8
MOST_CHARACTERS = 8
"""Characters of a text that a normalizer puts before a prompt."""
PLAIN = {
    "normalizer": {"NFC"},
    "pre_tokenizer": {"ByteLevel", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit"},
    "post_processor": {"ByteLevel"},
    "decoder": {"ByteFallback", "ByteLevel", "Fuse", "Metaspace"},
}
INNER = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors"}
INNER["decoder"] = "decoders"

_SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_BEFORE, _UPPER, _LOWER = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n"
_ASCII_SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]".replace('\\"', '"')


def _by_case(after: str) -> str:
    return f"{_BEFORE}{_UPPER}*{_LOWER}+{after}|{_BEFORE}{_UPPER}+{_LOWER}*{after}"


SPLITS = {
    *(rf"{_SHORT}|{_BEFORE}\p{{L}}+|\p{{N}}{most}|{_SIGNS}]*|{_SPACES}" for most in ("", "{1,3}")),  # Qwen 2, Llama 3
    rf"{_SHORT}|{_BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",  # Qwen 3.5
    rf"{_by_case('')}|\p{{N}}|{_SIGNS}/]*|{_SPACES}",  # Mistral's Tekken
    rf"{_by_case(_SHORT + '?')}|\p{{N}}{{1,3}}|{_SIGNS}/]*|{_SPACES}",  # gpt-oss
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    rf"{_ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
}
"""Expressions of published tokenizers; the last three are DeepSeek's. Each reads a text once."""


def is_harmless(tokenizer_json: Mapping[str, Any]) -> bool:
    """True if the tokenizer's work is linear in the text, whoever wrote the file."""
    try:
        model = tokenizer_json["model"]
        return model["type"] == "BPE" and not model.get("dropout") and all(_is_plain(tokenizer_json, p) for p in PLAIN)
    except (KeyError, TypeError, AttributeError, RecursionError):
        return False


def _is_plain(tokenizer_json: Mapping[str, Any], part: str) -> bool:
    steps = _steps(tokenizer_json.get(part), INNER[part])
    byte_levels = sum(step["type"] == "ByteLevel" for step in steps)  # each makes three characters of one
    has_few = byte_levels <= 1 and len(steps) <= MOST_STEPS
    return has_few and all(step["type"] in PLAIN[part] or _is_bounded(step) for step in steps)


def _steps(part: Any, inner: str) -> list[Any]:
    if part is None:
        return []
    return [step for entry in part[inner] for step in _steps(entry, inner)] if part["type"] == "Sequence" else [part]


def _is_bounded(step: Mapping[str, Any]) -> bool:
    """True for a step whose own settings keep its work linear."""
    kind, pattern = step["type"], step.get("pattern", {})
    if kind == "Prepend":
        return len(str(step["prepend"])) <= MOST_CHARACTERS
    if kind == "Replace":
        return 0 < len(pattern.get("String", "")) >= len(step["content"])
    if kind == "Split":
        return bool(pattern["String"]) if "String" in pattern else pattern["Regex"] in SPLITS
    if kind == "Strip":  # of a decoder
        return bool(0 <= step["start"] <= MOST_STEPS and step["stop"] == 0)
    if kind == "TemplateProcessing":
        ids = [token["ids"] for token in step["special_tokens"].values()]
        return len(step["single"]) <= MOST_STEPS and all(len(own) <= MOST_STEPS for own in ids)
    return False
