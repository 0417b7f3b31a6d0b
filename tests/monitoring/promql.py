"""The selectors of an expression, as far as these rules need: names, matchers, and labels in brackets."""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "inf"}
_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?')
_TOKEN = re.compile(
    r"""(?P<name>[a-zA-Z_:][\w:]*)\s*(?P<call>\()?
      | (?P<braces>\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})
      | (?P<range>\[[^\]]*\])
      | "(?:[^"\\]|\\.)*"
      | [0-9][0-9a-zA-Z.]*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Selector:
    """A metric and its matchers: (label, operator, value)."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Parsed:
    """The selectors of an expression, and the labels it groups or joins by."""

    selectors: tuple[Selector, ...]
    labels: frozenset[str]


def parse(expression: str) -> Parsed:
    """Parses an expression without functions, operators, ranges and numbers."""
    selectors: list[Selector] = []
    labels: set[str] = set()
    place = 0
    while token := _TOKEN.search(expression, place):
        place = token.end()
        name = token["name"]
        if name in ("by", "without", "on", "ignoring", "group_left", "group_right") and token["call"]:
            end = expression.index(")", place)
            labels |= {label.strip() for label in expression[place:end].split(",") if label.strip()}
            place = end + 1
        elif name and not token["call"] and name.lower() not in WORDS and not _is_aggregation(expression, place, name):
            selectors.append(Selector(name, ()))
        elif token["braces"]:
            matchers = tuple(match.groups() for match in _MATCHER.finditer(token["braces"][1:-1]))
            before = selectors.pop()
            selectors.append(Selector(before.metric, tuple((a, b, c) for a, b, c in matchers)))
    return Parsed(tuple(selectors), frozenset(labels))


def _is_aggregation(expression: str, place: int, name: str) -> bool:
    """Returns True for `sum` of `sum by (model) (…)`, which is not a metric."""
    return re.match(r"\s*(by|without)\b", expression[place:]) is not None and name.islower()
