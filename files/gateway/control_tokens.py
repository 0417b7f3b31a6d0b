"""Control tokens of a tokenizer, and marks that keep a client's text from spelling one.

A template puts control tokens and clients' texts into one string; without protection, `<|im_end|>` in a user's message
would end that message. So before rendering, the texts of the request get marks: a character that no text of the request
has. It follows each character with which a control token begins, and precedes each with which one ends: templates cut
texts, change their case and add text around them, and still neither end of a control token can come from a client.
Afterwards only the template itself can have written a control token; the marks are removed before the rest is
tokenised.

Control tokens are the special tokens, and the other added tokens that the template writes (`<think>`, `<tool_call>`).
An assistant's message may have the latter: the model itself wrote them, and templates look for them.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer

# Unicode noncharacters, which texts normally lack. If a text has one of them, another one is the mark.
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
KEPT = {
    "role": frozenset({"system", "developer", "user", "assistant", "tool"}),
    "type": frozenset({"function", "text", "object"}),
}
"""Fields whose values templates compare; these values get no mark, because the comparison would then fail."""
MODEL_TEXT_FIELDS = frozenset({"content", "reasoning_content"})
"""Fields of an assistant's message with text that the model itself wrote."""


class TokenTexts:
    """A set of control tokens' texts, found in linear time whatever their number and common prefixes."""

    def __init__(self, words: Collection[str], kept: Collection[str] = ()) -> None:
        """`kept`: texts that are not marked."""
        self.pattern = re.compile(trie(words)) if words else re.compile(r"(?!)")
        firsts, lasts = ("".join(sorted({re.escape(word[end]) for word in words})) for end in (0, -1))
        whole = f"|{trie(kept)}" if kept else ""
        self._edges = re.compile(f"(?<=[{firsts}])|(?=[{lasts}]){whole}") if words else self.pattern
        self._folded = [word.casefold() for word in words]
        self._longest = max(map(len, self._folded), default=0)

    def marked(self, text: str, mark: str) -> str:
        """The text with marks, so that neither the text nor its surroundings spell a control token."""
        body = text.strip()
        if body and len(body) <= self._longest and any(body.casefold() in word for word in self._folded):
            # A control token without its first and last character.
            text = text.replace(body, body[:1] + mark + body[1:])
        return self._edges.sub(lambda match: match[0] or mark, text)


class ControlTokens:
    """The control tokens of a tokenizer under a template."""

    def __init__(self, added: Iterable[Any], template: str) -> None:
        """`added`: entries of `added_tokens` in tokenizer.json."""
        special = {entry["content"]: entry for entry in added if entry.get("special")}
        written = {
            entry["content"]: entry for entry in added if not entry.get("special") and _is_written(entry, template)
        }
        self.entries: dict[str, dict[str, Any]] = special | written
        self.ids = frozenset(int(entry["id"]) for entry in self.entries.values())
        self.all, self.special = TokenTexts(list(self.entries)), TokenTexts(list(special), list(written))

    def mark_for(self, value: object) -> str:
        """A mark that no text of `value` contains.

        Raises: ValueError if every possible mark is used.
        """
        used = {character for text in texts_in(value) for character in MARKS if character in text}
        free = [mark for mark in MARKS if mark not in used]
        if not free:
            raise ValueError("the texts have every noncharacter of Unicode from U+FDD0 to U+FDEF")
        return free[0]

    def marked_messages(self, messages: list[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
        return [
            {
                name: self.marked(value, mark, self._words(name, message["role"]), name)
                for name, value in message.items()
            }
            for message in messages
        ]

    def _words(self, name: str, role: str) -> TokenTexts:
        return self.special if role == "assistant" and name in MODEL_TEXT_FIELDS else self.all

    def marked(self, value: Any, mark: str, words: TokenTexts | None = None, name: str = "") -> Any:
        """`value` with every text in it marked, names in objects included; `name` is the field of this value."""
        words = words or self.all
        if isinstance(value, str):
            return value if value in KEPT.get(name, ()) else words.marked(value, mark)
        if isinstance(value, list):
            return [self.marked(item, mark, words) for item in value]
        if isinstance(value, dict):
            return {words.marked(key, mark): self.marked(item, mark, words, key) for key, item in value.items()}
        return value


def texts_in(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def trie(words: Iterable[str]) -> str:
    """A regular expression for the longest of the words at a place, without backtracking over the same text."""
    ends: dict[str, Any] = {}
    for word in words:
        place = ends
        for character in word:
            place = place.setdefault(character, {})
        place[""] = {}
    return _branches(ends)


def _branches(place: dict[str, Any]) -> str:
    alternatives = [re.escape(character) + _branches(after) for character, after in sorted(place.items()) if character]
    if not alternatives:
        return ""
    together = alternatives[0] if len(alternatives) == 1 and "" not in place else f"(?:{'|'.join(alternatives)})"
    return f"{together}?" if "" in place else together


def _is_written(entry: dict[str, Any], template: str) -> bool:
    return bool(entry["content"].strip()) and entry["content"] in template


def tokenizer_of(tokenizer_json: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer without the truncation and padding of published files.

    Raises: ValueError for a file that the library cannot read, and if it gives an added token another id.
    """
    try:
        tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
    except Exception as error:  # the library raises no other type
        raise ValueError(f"tokenizer.json: {error}") from None
    for entry in tokenizer_json.get("added_tokens", []):
        if tokenizer.token_to_id(entry["content"]) != entry["id"]:
            raise ValueError(f"tokenizer.json: added token {entry['id']} gets another id from the tokenizers library")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def without(tokenizer_json: Mapping[str, Any], control: Collection[str]) -> dict[str, Any]:
    """The tokenizer's file with random names for the control tokens, which no text can spell.

    They are renamed and not removed: the library numbers added tokens anew, so the ones after a gap would get other
    ids.
    """
    names = {text: secrets.token_hex(32) for text in control}
    model, vocabulary = tokenizer_json["model"], tokenizer_json["model"].get("vocab")
    if isinstance(vocabulary, dict):
        vocabulary = {names.get(text, text): identity for text, identity in vocabulary.items()}
    elif isinstance(vocabulary, list):
        vocabulary = [[names.get(text, text), *rest] for text, *rest in vocabulary]
    unknown = model.get("unk_token")
    model = {**model, "vocab": vocabulary} | ({"unk_token": names.get(unknown, unknown)} if unknown else {})
    added = [
        {**entry, "content": names.get(entry["content"], entry["content"])}
        for entry in tokenizer_json.get("added_tokens", [])
    ]
    return {**tokenizer_json, "model": model, "added_tokens": added}
