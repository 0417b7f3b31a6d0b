"""Judges at every depth whether a value has the type that the spec annotates. Ranges are judged elsewhere.

A plain string instead of a `Secret` is the one value that a message must never show.
"""

import re
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from deploy.catalog.number_ranges import RANGES, shown
from deploy.inventory.guides import fraction_of_tokens
from deploy.inventory.objects_meant import example_of, function_of, secret_meant
from deploy.inventory.slips import choice_meant, meant_by, tuple_of
from deploy.refusals import ForeignObject, Refusal, described, kind_of, refuse, secret_in, shortened, source
from deploy.spec import Secret

GENERIC = re.compile(r"^write .* there(?:, imported from deploy\.spec)?$|\((?:VALUE,|…, …)\)")
"""Hints that only name the kind of a value, instead of a value to type."""
CONVERSIONS = {
    "int": dict.fromkeys(("Decimal", "Fraction", "int64", "int32", "float64"), "int(VALUE)"),
    "float": dict.fromkeys(("Decimal", "Fraction", "int64", "int32", "float64"), "float(VALUE)"),
    "str": dict.fromkeys(("bytes", "bytearray"), "VALUE.decode()"),
    "tuple": dict.fromkeys(("map", "filter", "generator", "zip", "dict_values", "dict_keys", "deque"), "tuple(VALUE)"),
}
"""Conversions of foreign objects into the wanted type, by the name of their class."""
MOST = 10**18
"""Largest number in any field; Python cannot print much longer ones."""


def mistyped(value: Any, hint: Any, where: str) -> Iterator[Refusal]:
    """A refusal for every place inside `value` that does not match `hint`."""
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
    elif origin in (dict, Mapping):
        yield from _dictionary(value, get_args(hint), where)
    elif isinstance(value, (int, float)) and not abs(value) < MOST:
        yield _endless_number(value, where)


@cache
def hints_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_of(value: Any, wanted: type) -> bool:
    """True if `value` fits the annotation `wanted`: 95 fits a float, True never fits a number."""
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
    elif not plain and get_origin(options[0]) is Literal:
        yield from _choice(value, get_args(options[0]), where)
    elif not plain:
        names = " or ".join(getattr(option, "__name__", str(option)) for option in options)
        yield _kind(value, names, where)


def _choice(value: Any, allowed: tuple[Any, ...], where: str) -> Iterator[Refusal]:
    if not isinstance(value, str) or value not in allowed:
        words = [str(word) for word in allowed if word != ""]
        seen = shortened(value) if isinstance(value, str) else str(value) if type(value) is bool else described(value)
        yield refuse(
            "unknown-choice",
            f"`{where}` has no choice {seen}",
            where=where,
            seen=seen,
            wanted="one of " + ", ".join(repr(word) for word in words),
            attempt=choice_meant(value, words, where),
        )


def _dictionary(value: dict[Any, Any], hints: tuple[Any, ...], where: str) -> Iterator[Refusal]:
    """A refusal for each key that is not a text, and, if the hint says `Any`, for each value that is not plain JSON."""
    inside = hints[1] if len(hints) == 2 else Any
    for key, item in value.items():
        if not isinstance(key, str):
            yield _kind(key, "str", f"{where}, a key of it", attempt="write the key as a text, or take it out")
        elif inside is Any:
            yield from _plain(item, f'{where}["{key}"]')
        elif inside is str and not isinstance(item, str):
            yield _kind(item, "str", f'{where}["{key}"]')
        else:
            yield from _numbers(item, f'{where}["{key}"]')


def _numbers(value: Any, where: str) -> Iterator[Refusal]:
    """A refusal for each number too large for any field; `deploy.validation` judges the rest of the value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) >= MOST:
        yield _endless_number(value, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f'{where}["{key}"]')
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _numbers(item, f"{where}[{number}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _numbers(getattr(value, field.name), f"{where}.{field.name}")


def _plain(value: Any, where: str) -> Iterator[Refusal]:
    if isinstance(value, dict):
        yield from _dictionary(value, (), where)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _plain(item, f"{where}[{number}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and not abs(value) < MOST:
        yield _endless_number(value, where)
    elif value is not None and not isinstance(value, (str, int, float)):
        path = f'"{value}"' if isinstance(value, PurePath) else ""
        attempt = path or "a text, a number, True or False, or a list or dictionary of these"
        yield refuse(
            "wrong-type",
            f"`{where}` has to be a value that JSON can write",
            where=where,
            seen=described(value),
            wanted="a text, a number, True, False, None, a list or a dictionary",
            attempt=attempt,
        )


def _endless_number(value: float, where: str) -> Refusal:
    return refuse(
        "wrong-type",
        f"`{where}` is a number that nothing here can hold",
        where=where,
        seen=shown(value),
        wanted="a finite number of fewer than nineteen digits",
        attempt="the number in the unit that ends the field's name, without further zeros",
    )


def _tuple(value: Any, element: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(value, tuple):
        yield _no_tuple(value, element, where)
        return
    for number, item in enumerate(value):
        name = getattr(item, "name", None)
        place = f'{where}["{name}"]' if isinstance(name, str) else f"{where}[{number}]"
        yield from mistyped(item, element, place)


def _no_tuple(value: Any, element: Any, where: str) -> Refusal:
    """The refusal of a list, or of a single value without its comma; a short text is shown in the form to type."""
    field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
    kinds = [kind for kind in get_args(element) or (element,) if isinstance(kind, type) and is_dataclass(kind)]
    if typed := _of_library_object(value, "tuple", where):
        return _kind(value, "tuple", where, attempt=typed)
    if kinds and not _are_objects(value, kinds):
        text = next(iter(value), None) if isinstance(value, (list, dict)) and len(value) == 1 else value
        built = meant_by(text, " or ".join(kind.__name__ for kind in kinds), f"{field}[0]")
        return _kind(value, "tuple", where, attempt=f"{field}=({built},)" if built else "")
    is_short = isinstance(value, str) and re.fullmatch(r"[\w.:/*-]{1,40}", value) is not None
    if typed := tuple_of(value, field, of_numbers=element is int):
        return _kind(value, "tuple", where, attempt=typed)
    if isinstance(value, (list, dict, ForeignObject)):
        return _kind(value, "tuple", where, attempt=f"{field}=(…, …): round brackets, and a comma behind each value")
    if type(value) is int and element is str:
        example = f'mig=("1g.10gb",) * {value}' if field == "mig" and 0 < value <= 7 else f'{field}=("…",)'
        return _kind(value, "tuple", where, attempt=f"{example}, of texts")
    if is_short or (type(value) is int and abs(value) < MOST):
        typed = f'"{value}"' if isinstance(value, str) else f"{value}"
        return _kind(value, "tuple", where, attempt=f"{field}=({typed},)   the comma makes it a tuple of one value")
    built = f"{type(value).__name__}(…)" if is_dataclass(value) and not isinstance(value, type) else "VALUE"
    return _kind(value, "tuple", where, attempt=f"{field}=({built},)   the comma makes it a tuple of one value")


def _are_objects(value: Any, kinds: list[Any]) -> bool:
    """True for an object of these classes, and for a list or dictionary of only such objects."""
    items = list(value.values() if isinstance(value, dict) else value) if isinstance(value, (list, dict)) else [value]
    return bool(items) and all(isinstance(item, tuple(kinds)) for item in items)


def _object(value: Any, wanted: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(value, wanted):
        yield _kind(value, wanted.__name__, where)
        return
    if isinstance(value, Secret) and isinstance(value.source, str) and value.kind in ("env", "vault", "command"):
        yield _kind(value.source, "tuple", f"{where}.source", attempt=_words_apart(value.kind, [value.source]))
        return
    if words := _words_of(value):
        yield _kind(words, "str", f"{where}.source[0]", attempt=_words_apart(value.kind, words))
        return
    hints = hints_of(type(value))  # type: ignore[arg-type]  # mypy takes a class for unhashable
    for field in fields(value):
        for problem in mistyped(getattr(value, field.name), hints[field.name], f"{where}.{field.name}"):
            yield with_default(problem, field, type(value).__name__)


def with_default(problem: Refusal, field: Field[Any], owner: str) -> Refusal:
    """The refusal with the field's default, or an example of a field without one, if its hint only names a kind of
    value.

    Problems of other fields, inside this one, stay as they are.
    """
    is_own = re.split(r"[.\]]", problem.facts["where"])[-1] == field.name
    default = None if field.default is MISSING else field.default
    typed = re.fullmatch(rf"{field.name}=(-?[0-9]{{1,15}})", problem.attempt)
    row = RANGES.get(owner, {}).get(field.name)
    if is_own and typed and row and not row.takes(int(typed[1])):
        slip, meant = row.slip_of(int(typed[1]))
        attempt = f"{field.name}={round(meant) if slip or type(default) is not int else default}"
    elif problem.facts["seen"] == "None" and problem.facts["where"].endswith("]"):
        attempt = "take it out"
    elif not is_own or not GENERIC.search(problem.attempt):
        if field.default is not MISSING or problem.attempt != f"leave {field.name} out":
            return problem
        attempt = example_of(owner, field.name) or problem.attempt
    elif function := function_of(owner):
        attempt = function
    elif example := example_of(owner, field.name):
        attempt = example if field.default is MISSING else f"{example}; or leave {field.name} out"
    elif default is None or default in ("", ()) or not isinstance(default, (str, int, float, tuple)):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        attempt = problem.attempt if is_needed else f"leave {field.name} out"
    else:
        attempt = f"{field.name}={source(default)}, the default"
    return Refusal(problem.problem, facts=problem.facts, attempt=attempt, state=problem.state, kind=problem.kind)


def _words_of(value: Any) -> list[str]:
    """The words of a secret's command that were typed as one list; empty for any other value."""
    source = value.source if isinstance(value, Secret) else ()
    words: Any = source[0] if isinstance(source, tuple) and len(source) == 1 else ()
    is_list = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
    return list(words) if is_list else []


def _words_apart(kind: str, words: Collection[str]) -> str:
    """A secret's words as separate arguments; empty if one may be a key."""
    plain = all(re.fullmatch(r"[\w./=:@-]{1,40}", word) for word in words) and not any(map(secret_in, words))
    return f"Secret.{kind}({', '.join(f'{chr(34)}{word}{chr(34)}' for word in words) if plain else '*WORDS'})"


def _kind(value: Any, wanted: str, where: str, attempt: str = "") -> Refusal:
    wanted = "dict" if wanted == "Mapping" else wanted
    seen = str(value) if isinstance(value, bool) else described(value)
    words = " or ".join(map(kind_of, wanted.split(" or ")))
    built = f"write {wanted}(…) there, imported from deploy.spec" if wanted[:1].isupper() else f"write {words} there"
    built = meant_by(value, wanted, where) or _of_library_object(value, wanted, where) or built
    return refuse(
        "wrong-type", f"`{where}` has to be {words}", where=where, seen=seen, wanted=words, attempt=attempt or built
    )


def _of_library_object(value: Any, wanted: str, where: str) -> str:
    """The conversion of an object of Python's own library: a duration, an address, a moment, an amount."""
    field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
    if not isinstance(value, ForeignObject):
        return ""
    if made := "VALUE.value" if value.is_choice else CONVERSIONS.get(wanted, {}).get(value.words.partition(" ")[2], ""):
        return made if where.endswith("]") else f"{field}={made}"
    if wanted == "int" and value.words == "a timedelta":
        return f"{field}=int(VALUE.total_seconds())" if field.endswith("_seconds") else f"{field}=VALUE.days"
    if wanted == "str":
        return f'{field}=str(VALUE), or its text in quotes: {field}="…"'
    return ""


def _literal_secret(value: Any, where: str) -> Refusal:
    length = f"{len(value)} characters, " if isinstance(value, str) else ""
    return refuse(
        "literal-secret",
        f"`{where}` holds the secret itself; an inventory only names the place of a secret",
        where=where,
        seen=f"{described(value)}, {length}not shown",
        wanted="Secret.env(…), Secret.vault(…) or Secret.command(…)",
        attempt=secret_meant(value, re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2])
        or 'Secret.env("NAME_OF_THE_VARIABLE"); the value is in a file now, so make a new one',
    )
