"""Near misses among names that are not all known: close enough to be a slip, else no finding."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from deploy.catalog.names import slip_of


def near_miss(word: str, known: Iterable[str]) -> str:
    """The name `word` was meant to be; empty if it is itself known, or may mean something else."""
    return slip_of(word, known)


def nearest_path(path: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name most like `path` in its letters, if names are few and all of them known."""
    close = difflib.get_close_matches(path, list(known), n=1, cutoff=cutoff)
    return close[0] if close else ""
