"""Which texts of a tokenizer are control tokens, and how a stranger's text is kept from spelling one.

A template puts control tokens and strangers' texts into one string; tokenised as it is, `<|im_end|>` in a user's
message would end that message. So before rendering, every text of the request in which a control token stands, or
could come to stand together with its neighbours, gets a mark there: a character that nothing in the request has.
Afterwards a control token is one that the template itself wrote, whole; the marks go before the rest is tokenised.

Control tokens are the special tokens, and of the other added ones those that the template writes (`<think>`,
`<tool_call>`). An assistant's message may have the latter: the model itself wrote them, and templates look for them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

# Unicode will never make characters of these, so texts have none; one that has is given another of them.
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
KEPT = frozenset({"role", "type"})
"""Fields that have passed a check against a list: a mark would only keep the template from knowing them."""


class Words:
    """A set of control tokens' texts, found in linear time however many there are and however they begin alike."""

    def __init__(self, words: Collection[str]) -> None:
        self.pattern = re.compile(trie(words)) if words else re.compile(r"(?!)")
        self._heads = {word[:length] for word in words for length in range(1, len(word))}
        self._tails = {word[length:] for word in words for length in range(1, len(word))}
        self._longest = max(map(len, words), default=0)

    def marked(self, text: str, mark: str) -> str:
        """The text with a mark wherever a word stands in it, or could be completed by what comes before or after."""
        text = self.pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)
        body = text.strip()
        if not body:
            return text
        lengths = range(1, min(self._longest, len(body)) + 1)
        start = text.index(body)
        before, after = text[:start], text[start + len(body) :]
        head = mark if any(body[:length] in self._tails for length in lengths) else ""
        tail = mark if any(body[-length:] in self._heads for length in lengths) else ""
        return before + head + body + tail + after


class ControlTokens:
    """The control tokens of a tokenizer under a template."""

    def __init__(self, added: Iterable[Any], template: str) -> None:
        """`added`: entries of `added_tokens` in tokenizer.json."""
        special = {one["content"]: one for one in added if one.get("special")}
        written = {one["content"]: one for one in added if not one.get("special") and _is_written(one, template)}
        self.entries: dict[str, dict[str, Any]] = special | written
        self.ids = frozenset(int(one["id"]) for one in self.entries.values())
        self.all, self.special = Words(list(self.entries)), Words(list(special))

    def mark_for(self, value: object) -> str:
        """A mark that no text of `value` has.

        Raises: ValueError where the texts have all of them.
        """
        used = {character for text in texts_in(value) for character in MARKS if character in text}
        free = [mark for mark in MARKS if mark not in used]
        if not free:
            raise ValueError("the texts have every noncharacter of Unicode from U+FDD0 to U+FDEF")
        return free[0]

    def marked(self, value: Any, mark: str, words: Words | None = None) -> Any:
        """`value` with every text in it marked, the names of objects too; `role` and `type` stay as they are."""
        words = words or self.all
        if isinstance(value, str):
            return words.marked(value, mark)
        if isinstance(value, list):
            return [self.marked(each, mark, words) for each in value]
        if isinstance(value, dict):
            if value.get("role") == "assistant":
                words = self.special
            return {
                words.marked(name, mark): each if name in KEPT else self.marked(each, mark, words)
                for name, each in value.items()
            }
        return value


def texts_in(value: object) -> Iterable[str]:
    """Every text in the value, the names of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def trie(words: Iterable[str]) -> str:
    """A regular expression for the longest of the words at a place; none of its ways is tried twice."""
    ends: dict[str, Any] = {}
    for word in words:
        place = ends
        for character in word:
            place = place.setdefault(character, {})
        place[""] = {}
    return _branches(ends)


def _branches(place: dict[str, Any]) -> str:
    ways = [re.escape(character) + _branches(after) for character, after in sorted(place.items()) if character]
    if not ways:
        return ""
    together = ways[0] if len(ways) == 1 and "" not in place else f"(?:{'|'.join(ways)})"
    return f"{together}?" if "" in place else together


def _is_written(one: dict[str, Any], template: str) -> bool:
    return bool(one["content"].strip()) and one["content"] in template
