"""Near misses among incomplete lists of names: a word close to a known name is a slip, any other word has no
finding."""

import difflib
from collections.abc import Iterable

from deploy.catalog.names import slip_of


def near_miss(word: str, known: Iterable[str]) -> str:
    return slip_of(word, known)


def nearest_path(path: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name most like `path` by its letters, for short and complete lists of names."""
    close = difflib.get_close_matches(path, list(known), n=1, cutoff=cutoff)
    return close[0] if close else ""
