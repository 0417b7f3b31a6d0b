"""How large a grammar a JSON schema makes, before an engine compiles it while others wait.

A schema of a few bytes can say a text of a billion characters, or a pattern whose repetitions multiply. The size here
is an upper bound of the rules that a compiler unrolls: repetitions multiply what they repeat, a reference counts as
what it names, and one that leads back to itself counts once.
"""

from __future__ import annotations

import re
from typing import Any

REPEATED = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains")
ENOUGH = 2**40
"""Sizes are counted no further."""
QUANTIFIER = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
CHARACTERS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.", re.DOTALL)


def schema_size(schema: object) -> int:
    """The size of a schema as JSON reads it; a node that constrains nothing is 1."""
    return _Sizes(schema).of(schema)


class _Sizes:
    """Sizes of a document's parts; of what references name, once."""

    def __init__(self, document: object) -> None:
        self._document = document
        self._named: dict[str, int] = {}

    def of(self, part: object) -> int:
        if isinstance(part, list):
            return min(1 + sum(map(self.of, part)), ENOUGH)
        if not isinstance(part, dict):
            return 1
        size = 1 + sum(self.of(value) for value in part.values())
        if isinstance(pattern := part.get("pattern"), str):
            size += pattern_size(pattern)
        if isinstance(named := part.get("patternProperties"), dict):
            size += sum(map(pattern_size, named))
        if isinstance(reference := part.get("$ref"), str):
            size += self._of_named(reference)
        counts = [part[name] for name in REPEATED if type(part.get(name)) in (int, float)]
        return min(size * int(max([1, *counts])), ENOUGH)

    def _of_named(self, reference: str) -> int:
        if reference not in self._named:
            self._named[reference] = 1  # what leads back here counts once
            self._named[reference] = self.of(self._at(reference))
        return self._named[reference]

    def _at(self, reference: str) -> Any:
        found: Any = self._document
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return None if found is self._document else found


def pattern_size(pattern: str) -> int:
    """The size of a regular expression with its counted repetitions unrolled; of what no parser reads, its length."""
    sizes, last, place = [0], 0, 0
    while place < len(pattern):
        if found := QUANTIFIER.match(pattern, place):
            times = max(int(found[1][:12]), int((found[3] or "0")[:12]), 1)
            sizes[-1] = min(sizes[-1] + last * (times - 1), ENOUGH)
            last, place = min(last * times, ENOUGH), found.end()
            continue
        found = CHARACTERS.match(pattern, place)
        assert found
        place = found.end()
        if found[0] == "(":
            sizes.append(1)
        elif found[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] = min(sizes[-1] + last, ENOUGH)
        else:
            last = 1
            sizes[-1] += 1
    return min(sum(sizes), ENOUGH)
