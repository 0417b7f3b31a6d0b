"""The result of a judge: findings, each with the seen text and its correction, and the corrected command.

A finding is either a mistake (the command differs from its apparent meaning) or a note (it works, with a catch).
Secrets are masked here, so that no judge can show one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deploy.linter.options import Option
from deploy.linter.release import Target
from deploy.linter.words import Word

SECRET_NAME = re.compile(r"(?:token|secret|password|passwd|api_?key|access_?key)$", re.IGNORECASE)
SECRET_VALUE = re.compile(r"\b(hf_(?=[A-Za-z0-9]{8})|nvapi-|ghp_|sk-(?=\w{16}))[A-Za-z0-9_-]+")
SECRET_PAIR = re.compile(r"\b((?:\w*_)?(?:token|secret|password|passwd|api_?key)=)(?!\$)[^\s\"'…$]+", re.IGNORECASE)
HIDDEN = "…"
NEW_LINE = "\n"
"""A mark among the corrected words: the next word begins a new line if the command takes several lines."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding about a command; `is_wrong` is False if the command works and the finding is a note."""

    kind: str
    problem: str
    seen: str
    wanted: str
    attempt: str
    is_wrong: bool = True


@dataclass(kw_only=True)
class Judged:
    """The findings in a command; `right` are the corrected words, empty if no correction exists."""

    findings: list[Finding] = field(default_factory=list)
    right: list[str] = field(default_factory=list)

    def add(self, kind: str, problem: str, *, seen: str, wanted: str, attempt: str, is_wrong: bool = True) -> None:
        self.findings.append(
            Finding(
                kind=kind,
                problem=masked(problem),
                seen=masked(seen),
                wanted=wanted,
                attempt=masked(attempt),
                is_wrong=is_wrong,
            )
        )

    def know(self, kind: str, problem: str, *, seen: str, wanted: str, attempt: str) -> None:
        self.add(kind, problem, seen=seen, wanted=wanted, attempt=attempt, is_wrong=False)

    def no_option(self, program: str, option: Option, near: str) -> None:
        self.add(
            "unknown-option",
            f"{program} has no option `{option.name}`",
            seen=" ".join(option.raw),
            wanted="an option by its exact name",
            attempt=f"did you mean `{near}`?",
        )

    def take(self, judged: Judged) -> list[str]:
        """The corrected words of an inner command, after its findings were added to these."""
        self.findings += judged.findings
        return judged.right


@dataclass(frozen=True, kw_only=True)
class Call:
    """A program with its arguments; `script` is the path of the Python file or module, `before` are the words before
    the program."""

    program: str
    script: str
    head: tuple[str, ...]
    args: tuple[Word, ...]
    before: tuple[Word, ...] = ()


Judge = Callable[[Call, Target], Judged]


def masked(text: str) -> str:
    """The text without the secrets in it; most words have neither sign of one, and are not searched."""
    text = SECRET_VALUE.sub(rf"\1{HIDDEN}", text) if "-" in text or "_" in text else text
    return SECRET_PAIR.sub(rf"\1{HIDDEN}", text) if "=" in text else text


def is_secret(name: str, value: str) -> bool:
    return (
        bool(value)
        and "$" not in value
        and "{{" not in value
        and bool(SECRET_NAME.search(name) or SECRET_VALUE.search(value))
    )


def raws(words: Sequence[Word]) -> list[str]:
    return [word.raw for word in words]
