"""Size of the grammar of a JSON schema, calculated before an engine compiles it while others wait.

A schema of a few bytes can describe a text of a billion characters, or a pattern whose repetitions multiply. The size
here is an upper bound of the rules that a compiler unrolls: a repetition multiplies the size of its content, a
reference counts as its target, and a reference to itself counts once.
"""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import unquote

REPEATED = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains")
ENOUGH = 2**40
"""Largest size that is counted."""
MOST_DEPTH = 200
"""Nesting of a schema's parts, with references followed; Python's own stack ends before 1,000."""
MOST_STEPS = 25_000
"""Most objects and lists that are examined, at 2 us each; the target of a cycle of references counts repeatedly."""
MOST_REPEATING = 16_384
"""Characters of patterns with counted repetitions, which are read one by one, 2 us for each."""
SHARED = ("$defs", "definitions")
QUANTIFIER = re.compile(r"\{\s*(?:(\d+)\s*)?(?:,\s*(?:(\d+)\s*)?)?\}")
"""A counted repetition as engines read it, also without its least number or with blanks."""
CHARACTERS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\\?\Z)|\\.|.", re.DOTALL)


class SchemaError(ValueError):
    """The schema cannot be measured, or refers to a missing part; the message has the reason."""


def schema_size(schema: object) -> int:
    """The size of a schema given as parsed JSON; a node without constraints has size 1.

    Definitions count at each reference to them, and not by themselves.

    Raises: SchemaError for references to other documents, numbers that are not finite, and too much depth or work.
    """
    if not isinstance(schema, dict):
        return 1
    return _Sizes(schema).of({name: part for name, part in schema.items() if name not in SHARED})


class _Sizes:
    """Sizes of a document's parts; the size of each reference's target is calculated once."""

    def __init__(self, document: object) -> None:
        self._document = document
        self._named: dict[str, tuple[int, frozenset[str]]] = {}
        """The size of a reference's target, and the references that were followed for it."""
        self._followed: set[str] = set()
        self._patterns: dict[str, int] = {}
        self._open: dict[str, int] = {}
        """References that are being followed, and the nesting depth of each."""
        self._leads_back_to = MOST_DEPTH
        """Smallest depth of an open reference to which a part examined since refers back."""
        self._depth = self._steps = 0

    def of(self, part: object) -> int:
        """The part's size. Uses one frame of Python's stack for each nested part."""
        if not isinstance(part, (dict, list)):
            return 1
        self._steps += 1
        if self._depth >= MOST_DEPTH or self._steps > MOST_STEPS:
            raise SchemaError("its parts are nested too deeply, or its references repeat too often")
        self._depth += 1
        size = 1
        for inner in part.values() if isinstance(part, dict) else part:
            size += self.of(inner)
        if isinstance(part, dict):
            if isinstance(pattern := part.get("pattern"), str):
                size += self._of_pattern(pattern)
            if isinstance(named := part.get("patternProperties"), dict):
                size += sum(map(self._of_pattern, named))
            for name in ("$ref", "$dynamicRef", "$recursiveRef"):
                if isinstance(reference := part.get(name), str):
                    size += self._of_named(reference)
            counts = (_count(part[name]) for name in REPEATED if type(part.get(name)) in (int, float))
            size *= max([1, *counts])
        self._depth -= 1
        return min(size, ENOUGH)

    def _of_pattern(self, pattern: str) -> int:
        if "{" not in pattern:
            return len(pattern)
        if pattern not in self._patterns:
            if sum(map(len, self._patterns)) + len(pattern) > MOST_REPEATING:
                raise SchemaError(f"its patterns with repetitions have more than {MOST_REPEATING} characters")
            self._patterns[pattern] = pattern_size(pattern)
        return self._patterns[pattern]

    def _of_named(self, reference: str) -> int:
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaError("it refers to other documents; only references that begin with `#/` are supported")
        if reference in self._open:  # what leads back counts once
            self._leads_back_to = min(self._leads_back_to, self._open[reference])
            return 1
        known = self._named.get(reference)
        if known and known[1].isdisjoint(self._open):
            self._followed |= known[1]
            return known[0]
        followed, self._followed = self._followed, {reference}
        before, self._leads_back_to = self._leads_back_to, MOST_DEPTH
        place = self._open[reference] = len(self._open)
        size = self.of(self._at(reference))
        del self._open[reference]
        if self._leads_back_to >= place:  # otherwise a part was counted as 1, because its reference was being followed
            self._named[reference] = size, frozenset(self._followed)
        self._leads_back_to = min(before, self._leads_back_to)
        self._followed |= followed
        return size

    def _at(self, reference: str) -> Any:
        node: Any = self._document
        for step in unquote(reference).split("/")[1:]:  # RFC 6901, 6: some engines decode it, and number lists
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and re.fullmatch("[0-9]{1,6}", name) and int(name) < len(node):
                node = node[int(name)]
            else:
                node = node.get(name) if isinstance(node, dict) else None
        return None if node is self._document else node


def _count(number: float) -> int:
    if not math.isfinite(min(number, ENOUGH)):
        raise SchemaError("a number in it is not finite")
    return int(min(number, ENOUGH))


def pattern_size(pattern: str) -> int:
    """The size of a regular expression with its counted repetitions unrolled; of unparseable text, its length."""
    sizes, last, place = [0], 0, 0
    while place < len(pattern):
        if match := QUANTIFIER.match(pattern, place):
            times = max(int((number or "0")[:12]) for number in (*match.groups(), "1"))
            sizes[-1] = min(sizes[-1] + last * (times - 1), ENOUGH)
            last, place = min(last * times, ENOUGH), match.end()
            continue
        match = CHARACTERS.match(pattern, place)
        assert match
        place = match.end()
        if match[0] == "(":
            sizes.append(1)
        elif match[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] = min(sizes[-1] + last, ENOUGH)
        else:
            is_open = len(match[0]) > 1 and match[0][0] == "[" and match[0][-1] != "]"
            last = len(match[0]) if is_open else 1
            sizes[-1] += last
    return min(sum(sizes), ENOUGH)
