"""JSON as a stranger sends it: strict, within a depth, and never two readings of one text."""

from __future__ import annotations

import json
import re
from typing import Any

STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
BRACKETS = re.compile(rb"[\[\]{}]")
OPENING = b"[{"


class JsonError(ValueError):
    """The text is no JSON that is taken here; says why, without a word of it."""


def parsed(raw: bytes, nesting: int) -> Any:
    """The value that `raw` says.

    Raises: JsonError for other encodings than UTF-8, a name given twice in one object, NaN and infinities, halves of
    surrogate pairs, and brackets nested deeper than `nesting`.
    """
    if depth(raw, nesting) > nesting:
        raise JsonError(f"brackets are nested deeper than {nesting}")
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        if b"\\u" in raw:  # an escape can say half a pair, which no text has
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise JsonError("an escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at character {error.pos}") from None
    except JsonError:
        raise
    except (ValueError, RecursionError):  # a number of more digits than Python reads
        raise JsonError("a number is too long") from None
    return value


def depth(raw: bytes, enough: int) -> int:
    """How deep brackets are nested outside strings; counting ends beyond `enough`."""
    if raw.count(b"[") + raw.count(b"{") <= enough:
        return 0
    deepest = level = 0
    for found in BRACKETS.finditer(STRINGS.sub(b"", raw)):
        level += 1 if found[0] in OPENING else -1
        deepest = max(deepest, level)
        if deepest > enough:
            break
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonError("an object gives one name twice")
    return found


def _constant(_word: str) -> Any:
    raise JsonError("NaN and infinities are no JSON")
