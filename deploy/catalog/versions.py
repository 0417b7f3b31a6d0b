"""Versions as something that compares: `580.65.06`, `1.2.1`, `1.20.0-1`, `0.17.0.post1`."""

from __future__ import annotations

import re


def version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.20.0-1` is (1, 20, 0); an empty or wordy one is ()."""
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()


def at_least(text: str, floor: str) -> bool:
    """True if version `text` is `floor` or newer; missing parts count as zero."""
    left, right = version(text), version(floor)
    width = max(len(left), len(right))
    return left + (0,) * (width - len(left)) >= right + (0,) * (width - len(right))
