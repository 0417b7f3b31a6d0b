"""Compares the flags of a planned build with the `--help` (argparse) of the program in the image.

Names are compared exactly. argparse itself accepts prefixes, so a misspelt flag may silently become another flag; and
the plan for a release without an exact row in the catalog may have a flag that the image lacks. Both are reported here,
before any GPU time is spent. If a help text prints no choices, none are checked.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

OPTION = re.compile(r"^ {1,8}(-\S.*)$")
FLAG = re.compile(r"^--?[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Flag:
    """A flag of the printed help. `choices` is empty if the help has none; a switch takes no value."""

    name: str
    choices: tuple[str, ...]
    is_switch: bool


def program_of(argv: list[str]) -> list[str]:
    """The words of a command line that name the program: up to `trtllm-build`, or to the script."""
    for place, word in enumerate(argv):
        if word.endswith(".py") or Path(word).name == "trtllm-build":
            return argv[: place + 1]
    return argv[:1]


def flags_in(help_text: str) -> dict[str, Flag]:
    """Every flag in a help text of argparse, by each of its names."""
    flags: dict[str, Flag] = {}
    for line in help_text.splitlines():
        if listed := OPTION.match(line):
            # Two spaces end the names where the explanation stands on the same line.
            flags |= _named(re.split(r"\s{2,}", listed[1])[0])
    return flags


def _named(names: str) -> dict[str, Flag]:
    """`--a A, --b A` or `--a, --b {x,y}`: value and choices belong to all names."""
    parts = [part.strip() for part in re.split(r",\s*(?=-)", names)]
    value = parts[-1].partition(" ")[2].strip()
    braces = re.search(r"\{([^}]*)\}", value)
    # trtllm-build of 1.2 lists `disable` twice.
    choices = tuple(dict.fromkeys(choice.strip() for choice in braces[1].split(","))) if braces else ()
    flags = [part.partition(" ")[0] for part in parts]
    return {name: Flag(name, choices, not value) for name in flags if FLAG.match(name)}


def planned(argv: list[str]) -> list[tuple[str, list[str]]]:
    """Flags and their values, in the order of the command line; `--a=b` counts as `--a b`."""
    words: list[tuple[str, list[str]]] = []
    for word in argv[len(program_of(argv)) :]:
        if FLAG.match(word):
            name, joined, value = word.partition("=")
            words.append((name, [value] if joined else []))
        elif words:
            words[-1][1].append(word)
    return words


def problems(argv: list[str], help_text: str, row: str) -> list[str]:
    """Differences of a planned command from the image's program: each flag with the catalog's text and the image's
    problem."""
    known = flags_in(help_text)
    name = Path(program_of(argv)[-1]).name
    catalog = f"\n  catalog  {row}" if row else ""
    wrong = []
    for flag, values in planned(argv):
        if problem := _problem(known, flag, values):
            line = " ".join([flag, *values])
            wrong.append(f"{name}: the image does not accept `{line}`{catalog}\n  image    {problem}")
    return wrong


def _problem(known: dict[str, Flag], flag: str, values: list[str]) -> str:
    here = known.get(flag)
    if here is None:
        close = difflib.get_close_matches(flag, list(known), n=1, cutoff=0.75)
        return f"knows {len(known)} flags, and not {flag}" + (f"; the nearest is {close[0]}" if close else "")
    if here.is_switch and values:
        return f"{flag} is a switch and takes no value"
    if not here.is_switch and not values:
        return f"{flag} needs a value" + (f" out of {', '.join(here.choices)}" if here.choices else "")
    unknown = [value for value in values if here.choices and value not in here.choices]
    return f"{flag} takes {', '.join(here.choices)}, and not {unknown[0]}" if unknown else ""
