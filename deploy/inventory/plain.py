"""Host data that every check can walk: keys that are texts, values that end, and no object of a class unknown here.

Such an object may raise when it is compared, printed or asked for an attribute; a `ForeignObject` stands in its place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from deploy.refusals import ForeignObject, Refusal, described, refuse

DEEPEST = 40
"""Largest depth of nesting of one value; the deepest object of the spec has seven levels."""
MOST = 100_000
"""Largest number of values inside one value of a host's data."""
SPEC = "deploy.spec"


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
            kept[key] = _known(value)
    return kept, problems


def _known(value: Any) -> Any:
    """The value with a `ForeignObject` for each object inside it that is neither plain nor of the spec."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if type(value) in (tuple, list):
        items = [_known(item) for item in value]
        is_same = all(known is item for known, item in zip(items, value, strict=True))
        return value if is_same else type(value)(items)
    if type(value) is dict:
        pairs = {_known_key(key): _known(item) for key, item in value.items()}
        is_same = all(isinstance(key, str) and pairs.get(key) is item for key, item in value.items())
        return value if is_same else pairs
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(SPEC):
        return _known_object(value)
    if type(value) is range or (type(value) in (set, frozenset) and all(type(item) in (str, int) for item in value)):
        return value
    return ForeignObject(described(value), isinstance(value, Enum))


def _known_key(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else ForeignObject(described(key))


def _known_object(value: Any) -> Any:
    """Returns `value`, or an unvalidated copy in which `ForeignObject` objects replace unknown field values."""
    inside = {field.name: getattr(value, field.name, None) for field in fields(value)}
    known = {name: _known(item) for name, item in inside.items()}
    if all(known[name] is item for name, item in inside.items()):
        return value
    copy = object.__new__(type(value))
    for name, item in known.items():
        object.__setattr__(copy, name, item)
    return copy


def _is_endless(value: Any) -> bool:
    """True for a value that contains itself, has no end, or is nested deeper than any inventory."""
    waiting, count = [(value, 0)], 0
    while waiting:
        inside, level = waiting.pop()
        count += 1
        if level > DEEPEST or count > MOST:
            return True
        waiting += [(item, level + 1) for item in _inside(inside)]
    return False


def _inside(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        yield from value.values()
    elif type(value) in (tuple, list):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(SPEC):
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
        f"`{key}` contains itself, or is nested deeper than an inventory can be",
        where=key,
        seen=f"more than {DEEPEST} levels",
        wanted="an object of deploy.spec, or a dictionary of plain values",
        attempt=f"build the value of `{key}` anew, without a reference to itself",
    )
