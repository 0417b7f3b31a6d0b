"""Log probabilities in the form of OpenAI's chats: each token's text and bytes, and the most likely alternatives.

Completions have the same in parallel lists (`Listed`).
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from gateway.errors import UpstreamError
from gateway.tensors import MALFORMED, Outputs

BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def byte_letters() -> dict[str, int]:
    """The letter that byte-level tokenizers write for each byte: its own if printable, else one from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + number): byte for number, byte in enumerate(others)}


LETTERS = byte_letters()


def bytes_of(token: str, is_byte_level: bool) -> bytes:
    """The bytes of a token of the vocabulary; an added token's are those of its own text."""
    if is_byte_level:
        if all(letter in LETTERS for letter in token):
            return bytes(LETTERS[letter] for letter in token)
        return token.encode()
    match = BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace("\u2581", " ").encode()


def content_of(outputs: Outputs, spelled: Callable[[int], bytes]) -> list[dict[str, Any]]:
    """An entry for each token of an event; `spelled` gives a token's bytes. Raises: UpstreamError for other tensors."""
    if "token_logprobs" not in outputs:
        return []
    try:
        return _content_of(outputs, spelled)
    except MALFORMED:
        raise UpstreamError("INTERNAL", "the answer's log probabilities have an unknown form") from None


def _content_of(outputs: Outputs, spelled: Callable[[int], bytes]) -> list[dict[str, Any]]:
    ids, chances = outputs["token_ids"].ints(), outputs["token_logprobs"].floats()
    has_others = "top_logprob_ids" in outputs
    others = outputs["top_logprob_ids"].ints() if has_others else []
    theirs = outputs["top_logprobs"].floats() if has_others else []
    width = len(others) // len(ids) if ids else 0
    return [
        {
            **_entry(identity, chance, spelled),
            "top_logprobs": _top(others[start : start + width], theirs[start : start + width], spelled),
        }
        for start, identity, chance in zip(range(0, len(ids) * max(width, 1), max(width, 1)), ids, chances, strict=True)
    ]


def _top(ids: Sequence[int], chances: Sequence[float], spelled: Callable[[int], bytes]) -> list[dict[str, Any]]:
    pairs = zip(ids, chances, strict=True)
    return [_entry(identity, chance, spelled) for identity, chance in pairs if identity >= 0]


def _entry(identity: int, chance: float, spelled: Callable[[int], bytes]) -> dict[str, Any]:
    raw = spelled(identity)
    # OpenAI's value for impossible tokens, because JSON has no infinity.
    logprob = chance if -9999.0 < chance < math.inf else -9999.0
    return {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(raw)}


class Listed:
    """The log probabilities of one choice of a completion; it tracks the text position of the next token."""

    def __init__(self) -> None:
        self._characters, self._decoder = 0, codecs.getincrementaldecoder("utf-8")("replace")

    def legacy_logprobs(self, entries: Sequence[dict[str, Any]], has_others: bool) -> dict[str, Any] | None:
        """Log probabilities of these tokens; None without tokens. A token without a text is shown by its bytes."""
        if not entries:
            return None
        offsets = []
        for entry in entries:
            offsets.append(self._characters)
            self._characters += len(self._decoder.decode(bytes(entry["bytes"])))
        others = [{_shown(top): top["logprob"] for top in [*entry["top_logprobs"], entry]} for entry in entries]
        return {
            "tokens": [_shown(entry) for entry in entries],
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": others if has_others else None,
            "text_offset": offsets,
        }


def _shown(entry: dict[str, Any]) -> str:
    raw = bytes(entry["bytes"])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
