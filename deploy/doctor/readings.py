"""The output of a host for each check, and the check's exit status; parsed, not judged.

The host prints `NAME|LINE` for every line of an answer and `NAME#ENDED` after it (roles/doctor/questions.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_CHARACTERS = 131_072
"""Largest number of characters of an answer; the host's own program, if unchanged, cuts an answer at half of that."""
LATE, CUT, GONE = "late", "cut", "gone"
"""Incomplete answers: the question took too long, the answer exceeded the limit, or no answer came."""
_LINE = re.compile(r"([a-z][a-z0-9-]*)([|#])(.*)", re.DOTALL)
_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Readings:
    """The answers of one host, by question."""

    texts: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    """Exit status of each question as text, `late`, `cut` or `gone`."""

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Readings:
        """The readings in the lines that a host printed; a line of another shape is skipped."""
        texts, ended, sizes = dict[str, list[str]](), dict[str, str](), dict[str, int]()
        for line in lines:
            if not (shaped := _LINE.fullmatch(line)):
                continue
            name, kind, rest = shaped.groups()
            if kind == "#":
                ended[name] = rest.strip()
                continue
            sizes[name] = sizes.get(name, 0) + len(rest)
            if sizes[name] <= MOST_CHARACTERS:
                texts.setdefault(name, []).append(rest.rstrip("\r"))
        ended |= {name: CUT for name, size in sizes.items() if size > MOST_CHARACTERS}
        return cls({name: "\n".join(answer).strip("\n") for name, answer in texts.items()}, ended)

    def expecting(self, names: Iterable[str]) -> Readings:
        return Readings(self.texts, {**dict.fromkeys(names, GONE), **self.ended})

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    def lines(self, name: str) -> list[str]:
        return [line for line in self.text(name).splitlines() if line.strip()]

    def rows(self, name: str) -> list[list[str]]:
        return [line.split() for line in self.lines(name)]

    def is_whole(self, name: str) -> bool:
        return self.ended.get(name, GONE) not in (LATE, CUT, GONE)

    def has(self, name: str) -> bool:
        return bool(self.text(name).strip())


def number(text: object) -> int:
    """The first whole number in a text; 0 without one."""
    match = _DIGITS.search(str(text))
    return int(match[0]) if match else 0


def seconds(value: object) -> float:
    """A number of JSON as seconds of the epoch; 0 for anything else, and for infinities."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and -1e12 < value < 1e12 else 0.0  # type: ignore[operator,arg-type]  # is_number


def fields(text: str) -> dict[str, Any]:
    """An object of JSON; empty for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
