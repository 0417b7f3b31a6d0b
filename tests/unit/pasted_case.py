"""The form of a pasted text with its expected findings."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A pasted text; `kinds` lists its expected findings in order, and is empty for a correct command."""

    text: str
    kinds: tuple[str, ...] = ()
    release: str = ""
