"""Overrides of a role under `<role>_settings`: declared by the role's `Defaults`, validated here.

`deploy/` knows no role. The caller that loads an inventory provides the table: the name of each role and its
`Defaults`, a dataclass with `Range` or `Text` in its annotations. A new knob is a line there, and a new role is a
folder.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_args, get_type_hints

from deploy.catalog.names import nearest, offer
from deploy.inventory.misplaced_keys import inside
from deploy.inventory.types import mistyped
from deploy.refusals import Refusal, refuse

SUFFIX = "_settings"
Table = Mapping[str, type[Any]]
"""The `Defaults` of each role, by the role's name."""


@dataclass(frozen=True)
class Range:
    """Whole numbers a knob takes, both ends included: `Annotated[int, Range(1, 100)]`."""

    least: int
    most: int

    @property
    def words(self) -> str:
        return f"{self.least:,} to {self.most:,}"

    def takes(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most)


@dataclass(frozen=True)
class Text:
    """Texts that a knob takes: the whole text matches `pattern`, which `words` describes to a person."""

    pattern: str
    words: str

    def takes(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None


URL = Text(r"https?://\S+", "a URL that begins with https:// or http://")
FINGERPRINT = Text(r"([0-9A-F]{40})?", "the 40 hex digits of a key, in capitals, or nothing")
SECONDS = Range(1, 7 * 24 * 3600)
ATTEMPTS = Range(1, 100)


def settings_problems(data: Mapping[str, Any], table: Table) -> Iterator[Refusal]:
    for role, defaults in table.items():
        if (key := f"{role}{SUFFIX}") in data:
            yield from role_problems(key, data[key], defaults)


def role_problems(key: str, values: Any, defaults: type[Any]) -> Iterator[Refusal]:
    """A refusal for each entry of `values`, the value of the data key `key`, that `defaults` does not take."""
    if values is None:
        return
    wrong = list(mistyped(values, dict[str, Any], key))
    yield from wrong
    hints = _hints(defaults)  # type: ignore[arg-type]  # mypy takes a class for unhashable
    known = [field.name for field in fields(defaults)]
    for name, value in () if wrong else values.items():
        yield from _value_problems(f"{key}.{name}", value, hints[name]) if name in known else _unknown(key, name, known)


@cache
def _hints(defaults: type[Any]) -> dict[str, Any]:
    return get_type_hints(defaults, include_extras=True)


def _value_problems(where: str, value: Any, hint: Any) -> Iterator[Refusal]:
    kind, *limits = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    wrong = list(mistyped(value, kind, where))
    yield from wrong
    for limit in () if wrong else limits:
        if not limit.takes(value):
            yield refuse(
                "setting-out-of-range",
                f"`{where}` takes no {_shown(value)}",
                where=where,
                seen=_shown(value),
                wanted=limit.words,
                attempt=f"write {limit.words} there, or leave it out",
            )


def _shown(value: Any) -> str:
    """The value for a message; a text with an @ may hold a password, so only its length is shown."""
    return f"text of {len(value)} characters" if isinstance(value, str) and "@" in value else repr(value)


def _unknown(key: str, name: str, known: list[str]) -> Iterator[Refusal]:
    yield refuse(
        "unknown-setting",
        f"{key} has no key `{name}`",
        where=key,
        seen=f"`{name}`",
        wanted=f"a knob of the role {key.removesuffix(SUFFIX)}",
        attempt=(inside(name) if nearest(name, known) not in known else "") or offer(name, known),
    )
