"""Texts of public sources with the expected verdict of `check` or `migrate`: tests/unit/pasted_public.yml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_suffix(".yml")


@dataclass(frozen=True)
class Public:
    """A text; `check` and `migrate` are its recorded verdicts, None without one."""

    source: str
    batch: str
    text: str
    check: dict[str, Any] | None = None
    migrate: dict[str, Any] | None = None


PUBLIC = tuple(Public(**row) for row in yaml.safe_load(FILE.read_text("utf-8")))
CHECKED = tuple(public for public in PUBLIC if public.check is not None)
MOVED = tuple(public for public in PUBLIC if public.migrate is not None)
