"""Host data that every check can walk: keys that are texts, and values that end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import described
from deploy.refusals.refuse import refuse

DEEPEST = 40
"""Levels inside one value; the deepest object of the spec has seven."""
MOST = 100_000
"""Values inside one value of a host's data."""


def walkable(data: Mapping[Any, Any]) -> tuple[dict[str, Any], list[Refusal]]:
    """The data that checks can walk, and a refusal for each entry that is left out."""
    kept: dict[str, Any] = {}
    problems: list[Refusal] = []
    for key, value in data.items():
        if not isinstance(key, str):
            problems.append(_no_text(key))
        elif _is_endless(value):
            problems.append(_endless(key))
        else:
            kept[key] = value
    return kept, problems


def _is_endless(value: Any) -> bool:
    """True for a value that holds itself, is nested deeper than anything an inventory describes, or has no end."""
    waiting, count = [(value, 0)], 0
    while waiting:
        inside, level = waiting.pop()
        count += 1
        if level > DEEPEST or count > MOST:
            return True
        waiting += [(item, level + 1) for item in _inside(inside)]
    return False


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (tuple, list)):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name, None) for field in fields(value))


def _no_text(key: object) -> Refusal:
    return refuse(
        "unknown-key",
        "the keys of a host's data are texts",
        where="the data of the host or of its group",
        seen=f"a key that is {described(key)}",
        wanted='names in quotes: {"machine": Machine(…), "servers": (…,)}',
        attempt="write the key as a text, or take it out",
    )


def _endless(key: str) -> Refusal:
    return refuse(
        "wrong-type",
        f"`{key}` holds itself, or is nested deeper than anything an inventory describes",
        where=key,
        seen=f"more than {DEEPEST} levels",
        wanted="an object of deploy.spec, or a dictionary of plain values",
        attempt=f"build the value of `{key}` anew, without a reference to itself",
    )
