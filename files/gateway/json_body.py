"""JSON of clients, parsed strictly, within a depth and a count; texts with two possible readings are refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

BRACKETS = re.compile(rb"[\[\]{}]")
OPENING = b"[{"
BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark, which some clients on Windows write first; RFC 8259 allows a reader to pass over it."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a text outside its strings: depth of brackets, number of `[` and `{`, and number of `[`, `{`, `,`
    and `:`."""

    nesting: int
    brackets: int
    marks: int


class JsonError(ValueError):
    """The text is not acceptable JSON; the message does not quote it."""


def parsed(raw: bytes, bounds: Bounds) -> Any:
    """The value of the JSON text `raw`.

    Raises: JsonError for other encodings than UTF-8, a name given twice in one object, NaN and infinities, halves of
    surrogate pairs, and more than the bounds allow.
    """
    check(raw, bounds)
    try:
        text = raw.removeprefix(BOM).decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
        if b"\\u" in raw:  # raises for half a surrogate pair, which escapes allow
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise JsonError("an escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at character {error.pos}") from None
    except JsonError:
        raise
    except (ValueError, RecursionError):  # more digits than Python converts
        raise JsonError("a number is too long") from None
    return value


def marks(raw: bytes) -> int:
    """Number of characters that could be JSON structure, including those in strings: at least the number of values."""
    return sum(map(raw.count, (b",", b":", b"[", b"{")))


def check(raw: bytes, bounds: Bounds) -> None:
    """Checks the text against the bounds, without parsing it.

    Raises: JsonError.
    """
    brackets = raw.count(b"[") + raw.count(b"{")
    if brackets <= bounds.nesting and brackets + raw.count(b",") + raw.count(b":") <= bounds.marks:
        return
    outside = outside_strings(raw, bounds.marks)
    brackets = outside.count(b"[") + outside.count(b"{")
    if brackets > bounds.brackets:
        raise JsonError(f"there are more than {bounds.brackets} objects and lists")
    if brackets + outside.count(b",") + outside.count(b":") > bounds.marks:
        raise JsonError(f"there are more than {bounds.marks} names, values, objects and lists together")
    if is_deeper(outside, bounds.nesting):
        raise JsonError(f"brackets are nested deeper than {bounds.nesting}")


def outside_strings(raw: bytes, most_strings: int) -> bytes:
    """The text outside strings, in time that grows only with the length.

    The result is right up to the first backslash outside a string, where every parser stops.

    Raises: JsonError for so many strings that the text cannot be JSON of the allowed number of values.
    """
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * (most_strings + 1):
        raise JsonError(f"there are more than {most_strings} texts")
    return b"".join(bare.split(b'"')[::2])


def is_deeper(outside: bytes, nesting: int) -> bool:
    """True if brackets are nested deeper than allowed; the count stops there."""
    level = 0
    for bracket in BRACKETS.finditer(outside):
        level += 1 if bracket[0] in OPENING else -1
        if level > nesting:
            return True
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise JsonError("an object gives one name twice")
    return values


def _float(word: str) -> float:
    number = float(word)
    if math.isinf(number):
        raise JsonError("a number is too large")
    return number


def _constant(_word: str) -> Any:
    raise JsonError("NaN and infinities are not JSON")
