"""Separates reasoning between `<think>` and `</think>` from the answer as the text arrives.

Qwen 3 and DeepSeek R1 write these marks. The prompt shows if the template has opened the thought.
"""

from __future__ import annotations

from gateway.answer_parts import Content, Part, Reasoning, overlap

OPEN, CLOSE = "<think>", "</think>"
MOST_BLANK = 64
"""Characters of white space that may stand before `<think>`."""


class Thoughts:
    """Takes text, and returns reasoning and the answer's own text. White space around the reasoning is dropped."""

    def __init__(self, is_open: bool) -> None:
        """`is_open`: the prompt ends within a thought."""
        self._step = self._inside if is_open else self._before
        self._rest, self._has_begun = "", False
        self.is_thought = is_open
        """The answer has reasoning so far."""
        self._blank: list[str] = []
        self._parts: list[Part] = []

    def feed(self, text: str) -> list[Part]:
        """The parts that this text completes."""
        self._rest += text
        while self._step(False):
            pass
        return self._taken()

    def end(self) -> list[Part]:
        """The parts still held back. An unfinished thought is reasoning."""
        while self._step(True):
            pass
        return self._taken()

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _before(self, is_last: bool) -> bool:
        body = self._rest.lstrip()
        blank = len(self._rest) - len(body)
        if body.startswith(OPEN) and blank <= MOST_BLANK:
            self._rest, self._step, self.is_thought = body[len(OPEN) :], self._inside, True
            return True
        if not is_last and blank <= MOST_BLANK and OPEN.startswith(body):
            return False
        self._step, self._has_begun = self._after, True
        return True

    def _inside(self, is_last: bool) -> bool:
        place = self._rest.find(CLOSE)
        until = place if place >= 0 else len(self._rest) - (0 if is_last else overlap(self._rest, CLOSE))
        self._think(self._rest[:until])
        self._rest = self._rest[until:]
        if place < 0:
            return False
        self._rest, self._blank = self._rest[len(CLOSE) :], []
        self._step, self._has_begun = self._after, False
        return True

    def _think(self, text: str) -> None:
        text = text if self._has_begun else text.lstrip()
        body = text.rstrip()
        if body:
            self._parts.append(Reasoning("".join(self._blank) + body))
            self._has_begun, self._blank = True, []
        self._blank.append(text[len(body) :])

    def _after(self, is_last: bool) -> bool:
        text, self._rest = self._rest if self._has_begun else self._rest.lstrip(), ""
        if text:
            self._has_begun = True
            self._parts.append(Content(text))
        return False
