"""A text model's answer, split into content, reasoning and calls by the parsers in the model's settings."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.answer_parts import Call, Content, Part
from gateway.call_formats import PARSERS, Listed, Named
from gateway.calls import Calls
from gateway.reasoning import Thoughts
from gateway.tools import Tools


class TextReader:
    """Reasoning first, then text and calls; without parsers everything is content."""

    def __init__(
        self,
        thoughts: Thoughts | None,
        calls: Calls | Named | None,
        in_parallel: bool = True,
        marks: tuple[int, int] | None = None,
    ) -> None:
        """Without `in_parallel` the answer ends with its first call.

        `marks`: the tokens that begin and end a thought, if each is a single token.
        """
        self._thoughts, self._calls, self._in_parallel = thoughts, calls, in_parallel
        self._marks, self._counted, self._is_past = marks, 0, False

    @property
    def thought_tokens(self) -> int | None:
        """Number of tokens before the mark that ends the thought."""
        if self._thoughts is None or self._marks is None:
            return None
        return self._counted if self._thoughts.is_thought else 0

    def _count(self, ids: Sequence[int]) -> None:
        begins, ends = self._marks or (-1, -1)
        for identity in ids:
            self._is_past = self._is_past or identity == ends
            self._counted += not self._is_past and identity != begins

    def read(self, text: str, ids: Sequence[int]) -> list[Part]:
        """The parts that this text completes."""
        if not self._is_past:
            self._count(ids)
        if self._thoughts is None:
            return self._wanted(self._called(text))
        return self._wanted([part for piece in self._thoughts.feed(text) for part in self._through(piece)])

    def end(self) -> list[Part]:
        """The parts still held back."""
        rest = [part for piece in self._thoughts.end() for part in self._through(piece)] if self._thoughts else []
        return self._wanted(rest + (self._calls.end() if self._calls else []))

    def _through(self, part: Part) -> list[Part]:
        return self._called(part.text) if isinstance(part, Content) else [part]

    def _called(self, text: str) -> list[Part]:
        if self._calls is None:
            return [Content(text)] if text else []
        return self._calls.feed(text)

    def _wanted(self, parts: list[Part]) -> list[Part]:
        if self._in_parallel or not (self._calls and self._calls.count):
            return parts
        kept = [number for number, part in enumerate(parts) if isinstance(part, Call) and not part.index]
        return parts[: kept[-1] + 1] if kept else []


def reader_of(
    tool_parser: str,
    reasoning_parser: str,
    tools: Tools,
    is_guided: bool,
    in_thought: bool,
    marks: tuple[int, int] | None = None,
) -> TextReader:
    """A reader for a sequence. A guide applies from the first token on, so a guided answer has no reasoning.

    `in_thought`: the prompt ends within a thought. `marks`: the tokens that begin and end one.
    """
    thoughts = Thoughts(in_thought) if reasoning_parser and not is_guided else None
    return TextReader(thoughts, _calls(tool_parser, tools), tools.in_parallel, marks)


def _calls(parser: str, tools: Tools) -> Calls | Named | None:
    if tools.choice == "none":
        return None
    family = PARSERS[parser]
    if tools.named:
        return Named(tools.named, family.identity())
    if tools.choice == "required":
        return Listed(tools.names, family.identity)
    return family(tools.names)
