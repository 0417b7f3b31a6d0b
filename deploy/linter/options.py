"""Reads options in the two ways of these programs: as argparse (scripts of TensorRT-LLM) and as getopt (all others).

Names and values of options are judged elsewhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deploy.catalog.names import slip_of
from deploy.linter.words import Word

NUMBER = re.compile(r"-\.?\d")


@dataclass(frozen=True)
class Option:
    """An option and its values; an empty `name` is a word that belongs to no option."""

    name: str
    values: tuple[Word, ...]
    raw: tuple[str, ...]
    is_attached: bool = False

    @property
    def value(self) -> str:
        return self.values[0].text if self.values else ""

    @property
    def varies(self) -> bool:
        return any(value.varies for value in self.values)


def argparse_options(args: Sequence[Word]) -> Iterator[Option]:
    """Every `--name` with all words up to the next one; words before the first option form an option without a name."""
    position = 0
    while position < len(args):
        here = args[position]
        position += 1
        if not _is_option(here):
            start = position - 1
            while position < len(args) and not _is_option(args[position]):
                position += 1
            yield Option("", tuple(args[start:position]), tuple(word.raw for word in args[start:position]))
            continue
        name, equals, _ = here.text.partition("=")
        if equals:
            yield Option(name, (_after_equals(here),), (here.raw,), True)
            continue
        start = position
        while position < len(args) and not _is_option(args[position]):
            position += 1
        values = tuple(args[start:position])
        yield Option(name, values, (here.raw, *(value.raw for value in values)))


def getopt_options(args: Sequence[Word], takes: Mapping[str, bool]) -> tuple[list[Option], list[Word]]:
    """Options up to the first word that is not one, and the words from there; `takes` names options with a value.

    An unknown option counts as one without a value, unless it has `=` or is a near miss of one that takes a value.
    """
    options: list[Option] = []
    position = 0
    while position < len(args) and args[position].text.startswith("-") and args[position].text not in ("-", "--"):
        here = args[position]
        position += 1
        name, rest = _split(here, takes)
        wants = takes.get(name) or takes.get(slip_of(name, takes), False)
        if rest is not None or not wants:
            options.append(Option(name, (rest,) if rest else (), (here.raw,), rest is not None))
        elif position < len(args):
            options.append(Option(name, (args[position],), (here.raw, args[position].raw)))
            position += 1
        else:
            options.append(Option(name, (), (here.raw,)))
    return options, list(args[position:])


def mixed_options(args: Sequence[Word], takes: Mapping[str, bool]) -> tuple[list[Option], list[Word]]:
    """Options and other words of a program that accepts them in any order."""
    every_option: list[Option] = []
    others: list[Word] = []
    left = list(args)
    while left:
        options, left = getopt_options(left, takes)
        every_option += options
        others += left[:1]
        left = left[1:]
    return every_option, others


def without(words: list[str], name: str) -> list[str]:
    """The words without an option and its values."""
    kept, inside = [], False
    for word in words:
        inside = word.partition("=")[0] == name or (inside and not word.startswith("-"))
        kept += [] if inside else [word]
    return kept


def _is_option(word: Word) -> bool:
    return word.text.startswith("-") and len(word.text) > 1 and not NUMBER.match(word.text)


def _after_equals(word: Word) -> Word:
    raw = word.raw.partition("=")[2]
    return Word(raw, word.text.partition("=")[2])


def _split(word: Word, takes: Mapping[str, bool]) -> tuple[str, Word | None]:
    """The name of an option and its attached value: `--a=b`, `-p80`, or a cluster such as `-it`."""
    text = word.text
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        return name, _after_equals(word) if equals else None
    for place, letter in enumerate(text[1:], start=1):
        if takes.get(f"-{letter}"):
            glued = text[place + 1 :]
            return f"-{letter}", Word(word.raw[word.raw.find(letter, 1) + 1 :], glued) if glued else None
    return text, None
