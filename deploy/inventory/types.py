"""Judges whether a value is of the kind the spec annotates, all the way down. Ranges are judged elsewhere.

A plain string where a `Secret` belongs is the one mistake that must never be shown back.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from deploy.catalog.names import offer
from deploy.inventory.guides import fraction_of_tokens
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec import Secret


def mistyped(value: Any, hint: Any, where: str) -> Iterator[Refusal]:
    """A refusal for every place inside `value` that is not what `hint` says."""
    origin = get_origin(hint)
    if hint is Any:
        return
    if origin in (Union, types.UnionType):
        yield from _union(value, hint, where)
    elif origin is Literal:
        yield from _choice(value, get_args(hint), where)
    elif origin is tuple:
        yield from _tuple(value, get_args(hint)[0], where)
    elif is_dataclass(hint):
        yield from _object(value, hint, where)
    elif not _is_of(value, origin or hint):
        yield _kind(value, (origin or hint).__name__, where)


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The annotation of each field of a class, resolved once and cached: a fleet has many objects of few classes."""
    return get_type_hints(kind)


def _is_of(value: Any, wanted: type) -> bool:
    """True if `value` may stand where `wanted` is annotated: 95 where a float is, never True where a number is."""
    if wanted in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if wanted is float else wanted)


def _union(value: Any, hint: Any, where: str) -> Iterator[Refusal]:
    options: list[type] = [option for option in get_args(hint) if option is not type(None)]
    if value is None and len(options) < len(get_args(hint)):
        return
    if Secret in options and not isinstance(value, Secret):
        yield _literal_secret(value, where)
        return
    matching = [option for option in options if is_dataclass(option) and isinstance(value, option)]
    plain = [option for option in options if not is_dataclass(option) and not list(mistyped(value, option, where))]
    if matching:
        yield from _object(value, matching[0], where)
    elif not plain and isinstance(value, float) and where.endswith("tokens"):
        yield fraction_of_tokens(value, where)
    elif not plain:
        names = " or ".join(getattr(option, "__name__", str(option)) for option in options)
        yield _kind(value, names, where)


def _choice(value: Any, allowed: tuple[Any, ...], where: str) -> Iterator[Refusal]:
    if value not in allowed or isinstance(value, bool):
        words = [str(word) for word in allowed if word != ""]
        yield refuse(
            "unknown-choice",
            f"`{where}` has no choice {value!r}",
            where=where,
            seen=repr(value),
            wanted="one of " + ", ".join(repr(word) for word in words),
            attempt=offer(str(value), words),
        )


def _tuple(value: Any, element: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(value, tuple):
        hint = "a list: write ( … , ) instead of [ … ]" if isinstance(value, list) else "one value: write (value,)"
        yield _kind(value, "tuple", where, attempt=f"a tuple belongs here, and this is {hint}")
        return
    for number, item in enumerate(value):
        name = getattr(item, "name", None)
        place = f'{where}["{name}"]' if isinstance(name, str) else f"{where}[{number}]"
        yield from mistyped(item, element, place)


def _object(value: Any, wanted: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(value, wanted):
        yield _kind(value, wanted.__name__, where)
        return
    hints = hints_of(type(value))  # type: ignore[arg-type]  # mypy takes a class for unhashable
    for field in fields(value):
        yield from mistyped(getattr(value, field.name), hints[field.name], f"{where}.{field.name}")


def unsafe_texts(value: Any, where: str, refused: Collection[str] = ()) -> Iterator[Refusal]:
    """A refusal for every text inside `value`, keys of dictionaries too, that cannot stand in a line of a file or be
    the word of a command: with a line break, a control character, or a dash in front, which makes an option of it.

    Words of the command of a Secret may be options. Nothing of a text is shown: it may be a key. Places in `refused`
    are passed over.
    """
    if isinstance(value, str):
        if where not in refused and (not value.isprintable() or value.startswith("-")):
            strange = next((sign for sign in value if not sign.isprintable()), "-")
            yield refuse(
                "unsafe-text",
                f"`{where}` is a text that no file or command of a host can take as it is",
                where=where,
                seen=f"{len(value):,} characters, among them U+{ord(strange):04X}",
                wanted="one line of printable characters, without a dash in front",
                attempt="write it anew; what was pasted may hold characters that are not seen",
            )
    elif isinstance(value, Secret):
        if any(not text.isprintable() for text in value.source):
            yield from unsafe_texts("".join(value.source), where, refused)
    elif isinstance(value, Mapping):
        for key, inside in value.items():
            yield from unsafe_texts(key, f"{where}, a key of it", refused)
            # A value may be an option of the program it is for; the key in front of it says so.
            text = inside.lstrip("-") if isinstance(inside, str) else inside
            yield from unsafe_texts(text, f'{where}["{key}"]', refused)
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from unsafe_texts(item, f"{where}[{number}]", refused)
    elif is_dataclass(value):
        for field in fields(value):
            yield from unsafe_texts(getattr(value, field.name), f"{where}.{field.name}", refused)


WORDS = {"int": "a whole number", "str": "a text", "bool": "True or False", "float": "a number", "dict": "a dictionary"}


def _kind(value: Any, wanted: str, where: str, attempt: str = "") -> Refusal:
    seen, words = WORDS.get(type(value).__name__, f"a {type(value).__name__}"), WORDS.get(wanted, f"a {wanted}")
    built = f"write {wanted}(…) there, imported from deploy.spec" if wanted[:1].isupper() else f"write {words} there"
    return refuse(
        "wrong-type",
        f"`{where}` has to be {words}",
        where=where,
        seen=seen,
        wanted=words,
        attempt=attempt or built,
    )


def _literal_secret(value: Any, where: str) -> Refusal:
    length = f"{len(value)} characters, " if isinstance(value, str) else ""
    return refuse(
        "literal-secret",
        f"`{where}` holds the secret itself; an inventory only says where a secret is found",
        where=where,
        seen=f"a {type(value).__name__}, {length}not shown",
        wanted="Secret.env(…), Secret.vault(…) or Secret.command(…)",
        attempt='Secret.env("NAME_OF_THE_VARIABLE"); the value is in a file now, so make a new one',
    )
