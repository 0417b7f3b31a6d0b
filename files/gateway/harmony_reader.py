"""Answers of gpt-oss, read by openai-harmony's own parser as their token ids arrive.

The channel `analysis` is reasoning, a message to `functions.NAME` is a call of that tool, and the rest is the answer's
text. Text that the parser cannot read, and an invalid call, are text of the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from openai_harmony import HarmonyEncoding, HarmonyError, Role, StreamableParser

from gateway.answer_parts import Call, Content, Part, Reasoning
from gateway.call_formats import Hermes
from gateway.calls import arguments_of, value_of

NAMESPACE = "functions."
LONGEST = 8
"""Tokens to wait for a whole character; a character has fewer."""
BETWEEN = "\n\n"
"""Text between two messages of one kind, such as a preamble and the answer, or two thoughts."""


class HarmonyReader:
    """Reads the tokens of one sequence."""

    def __init__(self, encoding: HarmonyEncoding, names: Collection[str], in_parallel: bool) -> None:
        """`names`: the tools of the request; without `in_parallel` the answer ends with its first call."""
        self._encoding, self._names, self._in_parallel = encoding, frozenset(names), in_parallel
        self._start, self._message = (_id(encoding, word) for word in ("<|start|>", "<|message|>"))
        self._stops = frozenset(encoding.stop_tokens())
        self._parser: StreamableParser | None = StreamableParser(encoding, Role.ASSISTANT, strict=False)
        """The parser; None after unreadable text, until a message begins."""
        self._header: list[int] = []
        self._unread: list[int] = []
        self._is_within, self._channel, self._recipient = False, "", ""
        self._arguments: list[str] = []
        self._parts: list[Part] = []
        self._begun: set[type[Part]] = set()
        self._is_apart = False
        self._count = 0
        self.thought_tokens = 0

    def read(self, text: str, ids: Sequence[int]) -> list[Part]:
        """The parts that these token ids complete; the text is not used, because the text lacks the format's control
        tokens."""
        for identity in ids:
            if self._in_parallel or not self._count:
                self._take(identity)
        return self._taken()

    def end(self) -> list[Part]:
        """The parts still held back. An incomplete header adds no text."""
        if self._is_within:
            self._close()
        elif self._in_parallel or not self._count:
            self._give_back()
            self._plain(last=True)
        return self._taken()

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _take(self, identity: int) -> None:
        if self._parser is None:
            if identity != self._start:
                self._unread.append(identity)
                self._plain()
                return
            self._plain(last=True)
            self._parser = StreamableParser(self._encoding, None, strict=False)
        try:
            self._parser.process(identity)
        except HarmonyError:
            self._header.append(identity)
            self._give_back(has_failed=True)
            return
        if not self._is_within:
            self._header.append(identity)
            if identity == self._message:
                self._open()
            elif identity in self._stops:
                self._give_back()
        elif identity in self._stops:
            self._close()
        else:
            self.thought_tokens += self._channel == "analysis" and not self._is_call
            if delta := self._parser.last_content_delta:
                self._say(delta)

    @property
    def _is_call(self) -> bool:
        return self._recipient.startswith(NAMESPACE) and self._recipient.removeprefix(NAMESPACE) in self._names

    def _open(self) -> None:
        assert self._parser is not None
        self._channel, self._recipient = self._parser.current_channel or "", self._parser.current_recipient or ""
        self._is_within, self._is_apart = True, True
        self._header = []

    def _close(self) -> None:
        self._is_within = False
        if not self._is_call:
            return
        text, self._arguments = "".join(self._arguments), []
        value = value_of(text) if text.strip() else {}
        arguments = arguments_of(value) if isinstance(value, dict) else None
        if arguments is None:
            self._append(Content, text)
            return
        name = self._recipient.removeprefix(NAMESPACE)
        self._parts.append(Call(self._count, arguments, name, Hermes.identity()))
        self._count += 1

    def _say(self, text: str) -> None:
        if self._is_call:
            self._arguments.append(text)
        else:
            self._append(Reasoning if self._channel == "analysis" else Content, text)

    def _append(self, kind: type[Content] | type[Reasoning], text: str) -> None:
        between = BETWEEN if self._is_apart and kind in self._begun else ""
        self._is_apart = False
        self._begun.add(kind)
        self._parts.append(kind(between + text))

    def _give_back(self, has_failed: bool = False) -> None:
        """Turns the tokens of a presumed header back into text, unless they include the format's own words."""
        header, self._header = self._header, []
        words = [identity for identity in header if self._encoding.is_special_token(identity)]
        if has_failed:
            self._parser = None
        if not [identity for identity in words if identity not in self._stops]:
            self._is_apart = self._is_apart or bool(self._begun)
            self._unread += [identity for identity in header if identity not in self._stops]
            self._plain()

    def _plain(self, last: bool = False) -> None:
        """Emits unread tokens as text as soon as they are whole characters."""
        unread = [identity for identity in self._unread if not self._encoding.is_special_token(identity)]
        try:
            text = self._encoding.decode_utf8(unread)
        except HarmonyError:
            if not last and len(unread) < LONGEST:
                return
            text = self._encoding.decode(unread)
        self._unread = []
        if text:
            self._append(Content, text)


def _id(encoding: HarmonyEncoding, word: str) -> int:
    (identity,) = encoding.encode(word, allowed_special={word})
    return int(identity)
