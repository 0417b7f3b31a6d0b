"""Tool calls in an LLM's text, found while the text arrives; `gateway.call_formats` has the families' formats.

A call is returned once its JSON is complete, names a tool of the request and has an object of arguments. Text that
begins like a call but is not one is returned unchanged as content. White space beside calls is dropped. The split of
the text into pieces does not affect the result, and the work grows linearly with the text's length.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Callable, Collection
from typing import Any

from gateway.answer_parts import Call, Content, Part, overlap
from gateway.json_body import Bounds, parsed

BOUNDS = Bounds(nesting=64, brackets=4096, marks=16_384)
"""Bounds of a call, and of arguments that a client sends back: they are read in 5 ms at most."""
MOST_CHARACTERS = 2**18
"""Characters of a call, for the same reason."""


class Calls:
    """Takes text, and returns the answer's own text and calls. Subclasses define beginning and separator of calls."""

    MARK = ""
    """Text that begins a call; "" if a call can only be at the answer's beginning."""

    def __init__(self, names: Collection[str], identity: Callable[[], str] | None = None) -> None:
        """`names`: the tools of the request; `identity` makes a call's id if the family's format has none."""
        self._new_identity = identity or self.identity
        self._names, self._name, self._is_listed = frozenset(names), "", False
        self._rest = ""
        self._raw: list[str] = []
        """Pieces read since a call may have begun."""
        self._depth, self._in_text, self._is_escaped = 0, False, False
        self._blank: list[str] = []
        self._follows_call = False
        self._parts: list[Part] = []
        self.count = 0
        self._step: Callable[[bool], bool] = self._start

    def feed(self, text: str) -> list[Part]:
        """The parts that this text completes."""
        self._rest += text
        while self._rest and self._step(False):
            pass
        return self._taken()

    def end(self) -> list[Part]:
        """The parts still held back; an incomplete call becomes text."""
        while self._rest and self._step(True):
            pass
        self._give_back()
        if not self.count and self._blank:
            self._parts.append(Content("".join(self._blank)))
        return self._taken()

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    # Each step reads as far as it can, and returns True if the next step may continue; `is_last`: no more text follows.

    def _start(self, is_last: bool) -> bool:
        self._step = self._prose
        return True

    def _prose(self, is_last: bool) -> bool:
        place = self._rest.find(self.MARK) if self.MARK else -1
        if place >= 0:
            self._say(self._rest[:place])
            self._raw = [self.MARK]
            self._rest, self._step = self._rest[place + len(self.MARK) :], self._opening
            return True
        held = 0 if is_last else overlap(self._rest, self.MARK)
        self._say(self._rest[: len(self._rest) - held])
        self._rest = self._rest[len(self._rest) - held :]
        return False

    def _opening(self, is_last: bool) -> bool:
        self._skip()
        if self._rest.startswith("{"):
            self._step = self._object
        elif self._rest:
            self._give_back()
        return True

    def _object(self, is_last: bool) -> bool:
        end = self._scan(self._rest)
        self._raw.append(self._rest[:end])
        self._rest = self._rest[end:]
        if self._depth or self._in_text:
            return False
        raw = "".join(self._raw)
        call = self._call(raw[raw.index("{") :])
        if call is None:
            self._give_back()
            return True
        name, arguments = call
        self._parts.append(Call(self.count, arguments, name, self._new_identity()))
        self.count += 1
        self._raw, self._blank, self._follows_call = [], [], True
        self._step = self._next
        return True

    def _next(self, is_last: bool) -> bool:
        self._step = self._prose
        return True

    def _element(self, is_last: bool) -> bool:
        """Reads an element of a model's list of tool calls."""
        self._skip(",")
        if self._rest.startswith("{"):
            self._step = self._object
        elif self._rest.startswith("]") and self._follows_call:
            self._rest, self._raw, self._step = self._rest[1:], [], self._prose
        elif self._rest:
            self._give_back()
        return True

    @staticmethod
    def identity() -> str:
        return f"call_{secrets.token_hex(12)}"

    def _call(self, text: str) -> tuple[str, str] | None:
        """Name and arguments; None if this is not a call of one of the tools."""
        value = value_of(text)
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in self._names:
            return None
        arguments = arguments_of(value["arguments"] if "arguments" in value else value.get("parameters"))
        return None if arguments is None else (name, arguments)

    def _scan(self, text: str) -> int:
        """Number of characters that belong to the JSON value, whose beginning was scanned before."""
        for place, letter in enumerate(text):
            if self._in_text:
                if self._is_escaped:
                    self._is_escaped = False
                elif letter == "\\":
                    self._is_escaped = True
                elif letter == '"':
                    self._in_text = False
            elif letter == '"':
                self._in_text = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if not self._depth:
                    return place + 1
        return len(text)

    def _skip(self, more: str = "") -> None:
        body = self._rest.lstrip(string.whitespace + more)
        self._raw.append(self._rest[: len(self._rest) - len(body)])
        self._rest = body

    def _give_back(self) -> None:
        """Turns the text of a presumed call back into content."""
        raw, self._raw, self._name = "".join(self._raw), [], ""
        self._depth, self._in_text, self._is_escaped = 0, False, False
        self._say(raw)
        self._step = self._prose

    def _say(self, text: str) -> None:
        """Adds text; white space is held back, because only text after it shows that no call follows."""
        text = text.lstrip() if self._follows_call else text
        body = text.rstrip()
        if body:
            self._parts.append(Content("".join(self._blank) + body))
            self._blank, self._follows_call = [], False
        if len(body) < len(text):
            self._blank.append(text[len(body) :])


def value_of(text: str) -> Any:
    try:
        return parsed(text.encode(), BOUNDS) if len(text) <= MOST_CHARACTERS else None
    except ValueError:
        return None


def arguments_of(value: Any) -> str | None:
    """The JSON text of an object of arguments; None for anything else. Models write the object, or its text."""
    value = {} if value is None else value_of(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a number outside JSON's range
        return None
