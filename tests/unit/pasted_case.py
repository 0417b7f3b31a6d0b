"""The form of a pasted text with the findings that it has to bring."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A pasted text; `kinds` lists its wrong findings in order, and is empty for a right command."""

    text: str
    kinds: tuple[str, ...] = ()
    release: str = ""
