"""The right name for a near miss, so that every refusal of an unknown name can offer one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FEW = 12
"""As many names as are worth reading beside the nearest one."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name closest to `word`, or nothing when none is close."""
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    return lowered[found[0]] if found else ""


def offer(word: str, known: Iterable[str]) -> str:
    """What to type instead of `word`: the nearest name, and all names where they are few or none is near."""
    names = sorted(known)
    close = nearest(word, names)
    every = f"known: {', '.join(names)}"
    if not close:
        return every
    return f"did you mean `{close}`?" + (f"  {every}" if len(names) <= FEW else "")
