"""Parts of an LLM's answer: text for the client, reasoning before it, and calls of the client's tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Content:
    """New text of the answer."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """New text of the model's reasoning before its answer."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of a tool, or a piece of one: only a call's first piece has `name` and `identity`."""

    index: int
    arguments: str
    name: str = ""
    identity: str = ""


Part = Content | Reasoning | Call


class Reader(Protocol):
    """Takes a sequence's events as they arrive; the split of the text into events does not affect the result."""

    @property
    def thought_tokens(self) -> int | None:
        """Number of reasoning tokens so far, without the marks; None if it cannot be counted."""

    def read(self, text: str, ids: Sequence[int]) -> list[Part]:
        """The parts that this text and these token ids complete."""

    def end(self) -> list[Part]:
        """The parts that were held back as ambiguous; it has to be the last call."""


def overlap(text: str, word: str) -> int:
    """Number of characters at the end of the text that may begin the word."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if word.startswith(text[-length:]):
            return length
    return 0
