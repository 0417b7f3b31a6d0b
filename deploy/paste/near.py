"""Near misses among names of which not all are known: close enough to be a slip, else nothing is said."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CLOSE = 0.85
"""One or two letters of a long name: `--model-repo` is a near miss of nothing, `--model-repositry` of one."""


def near_miss(word: str, known: Iterable[str], cutoff: float = CLOSE) -> str:
    """The name `word` was meant to be; empty where it is itself known, or close to none."""
    names = list(known)
    if word in names or len(word) < 4:
        return ""
    dashed, underscored = (word[:2] + word[2:].replace(*pair) for pair in (("_", "-"), ("-", "_")))
    for spelling in (dashed, underscored):
        found = difflib.get_close_matches(spelling, names, n=1, cutoff=cutoff)
        if found:
            return found[0]
    return ""
