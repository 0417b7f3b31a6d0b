"""Formats of tool calls: Hermes and Qwen, Llama 3, Mistral; and of calls under guided decoding."""

from __future__ import annotations

import re
import secrets
import string

from gateway.answer_parts import Call, Part
from gateway.calls import Calls, arguments_of, value_of

MOST_HEADER = 256
"""Most characters between Mistral's mark and the arguments: a tool's name, and optional words after the name."""
HEADER = re.compile(r"\s*([a-zA-Z0-9_.-]+)(?:\[CALL_ID\][a-zA-Z0-9]+)?(?:\[ARGS\])?\s*")
NINE = string.ascii_letters + string.digits


class Hermes(Calls):
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`, of Hermes and Qwen."""

    MARK, END = "<tool_call>", "</tool_call>"

    def _next(self, is_last: bool) -> bool:
        self._rest = self._rest.lstrip()
        if self._rest.startswith(self.END):
            self._rest, self._step = self._rest[len(self.END) :], self._prose
        elif is_last or not self.END.startswith(self._rest):
            self._step = self._prose
        else:
            return False
        return True


class Llama3(Calls):
    """An answer that begins with `{"name": …, "parameters": …}`; further calls follow after `;`."""

    def _start(self, is_last: bool) -> bool:
        return self._opening(is_last)

    def _next(self, is_last: bool) -> bool:
        self._skip(";,")
        if self._rest.startswith("{"):
            self._step = self._object
        elif self._rest:
            self._give_back()
        return True


class Mistral(Calls):
    """`[TOOL_CALLS]` before a list of `{"name": …, "arguments": …}`, or before a name and its arguments."""

    MARK = "[TOOL_CALLS]"

    @staticmethod
    def identity() -> str:
        return "".join(secrets.choice(NINE) for _ in range(9))

    def _opening(self, is_last: bool) -> bool:
        self._skip()
        self._is_listed = self._rest.startswith("[")
        if self._is_listed:
            self._raw.append("[")
            self._rest, self._step = self._rest[1:], self._element
        elif self._rest:
            self._step = self._header
        return True

    def _header(self, is_last: bool) -> bool:
        place = self._rest.find("{", 0, MOST_HEADER)
        if place < 0 and len(self._rest) < MOST_HEADER and not is_last:
            return False
        header = self._rest[:place] if place >= 0 else ""
        if (match := HEADER.fullmatch(header)) and match[1] in self._names:
            self._raw.append(header)
            self._rest, self._name, self._step = self._rest[place:], match[1], self._object
        else:
            self._give_back()
        return True

    def _call(self, text: str) -> tuple[str, str] | None:
        if not self._name:
            return super()._call(text)
        name, self._name = self._name, ""
        arguments = arguments_of(value_of(text))
        return None if arguments is None else (name, arguments)

    def _next(self, is_last: bool) -> bool:
        self._step = self._element if self._is_listed else self._prose
        return True


class Listed(Calls):
    """An answer that is only a list of calls, from guided decoding."""

    def _start(self, is_last: bool) -> bool:
        self._skip()
        if self._rest.startswith("["):
            self._raw.append("[")
            self._rest, self._step = self._rest[1:], self._element
        elif self._rest:
            self._give_back()
        return True

    def _next(self, is_last: bool) -> bool:
        self._step = self._element
        return True


class Named:
    """An answer that is only one tool's arguments, from guided decoding."""

    def __init__(self, name: str, identity: str) -> None:
        self._first, self.count = (name, identity), 0

    def feed(self, text: str) -> list[Part]:
        """The next piece of the arguments."""
        if not text:
            return []
        is_first, self.count = not self.count, 1
        return [Call(0, text, *(self._first if is_first else ()))]

    def end(self) -> list[Part]:
        return []


PARSERS: dict[str, type[Calls]] = {"hermes": Hermes, "llama3_json": Llama3, "mistral": Mistral}
"""Parsers by vLLM's names."""
SPECIAL = frozenset({"mistral"})
"""Parsers whose mark is a special token: the model's text has it only if the request asks for special tokens."""
