"""The table of knobs in roles/README.md has the roles' `Defaults`: name, value, unit and reason.

`GOLDEN=write pytest tests/unit/test_knobs.py` rewrites it.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "roles/README.md"
BLOCK = re.compile(r"(?<=<!-- knobs: tests/unit/test_knobs.py writes this -->\n)(.*?)(?=<!-- end of knobs -->)", re.S)
ROLES = sorted(
    file.parent.name for file in (ROOT / "roles").glob("*/defaults.py") if "class Defaults:" in file.read_text("utf-8")
)
UNITS = {"seconds": "s", "hours": "h", "mib": "MiB", "percent": "%"}


def table() -> str:
    """The whole table in Markdown, one row for each knob."""
    head = "\n| role | knob | default | takes | unit | why |\n| --- | --- | --- | --- | --- | --- |\n"
    return (
        head
        + "".join(row(role, name, value, why, taken(role, name)) for role in ROLES for name, value, why in knobs(role))
        + "\n"
    )


def row(role: str, name: str, value: object, why: str, takes: str) -> str:
    unit = UNITS.get(name.rsplit("_", 1)[-1], "")
    return f"| {role} | `{name}` | {shown(value)} | {takes} | {unit} | {why.replace('|', chr(92) + '|')} |\n"


def taken(role: str, name: str) -> str:
    """The range of a knob, or the words for its text; empty if the knob takes any value of its type."""
    hint = get_type_hints(importlib.import_module(f"roles.{role}.defaults").Defaults, include_extras=True)[name]
    limits = get_args(hint)[1:] if hasattr(hint, "__metadata__") else ()
    return " and ".join(limit.words for limit in limits)


def shown(value: object) -> str:
    """A default as an inventory would write it, in code."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"`{value}`" if not isinstance(value, str) else f'`"{value}"`'
    return f"{value:,}"


def knobs(role: str) -> list[tuple[str, Any, str]]:
    """(name, default, reason) of every field of a role's `Defaults`, in its order."""
    defaults = importlib.import_module(f"roles.{role}.defaults").Defaults()
    why = reasons(ROOT / "roles" / role / "defaults.py")
    return [(field.name, getattr(defaults, field.name), why.get(field.name, "")) for field in fields(defaults)]


def reasons(file: Path) -> dict[str, str]:
    """The string below each field of `Defaults`, on one line."""
    body = next(
        node.body
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "Defaults"
    )
    texts = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            texts[field.target.id] = " ".join(str(below.value.value).split())
    return texts


def test_the_pages_table_of_knobs_matches_the_roles() -> None:
    """The table is compared literally."""
    text = PAGE.read_text("utf-8")
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(BLOCK.sub(lambda _: table(), text), "utf-8")
    assert BLOCK.findall(PAGE.read_text("utf-8")) == [table()]


@pytest.mark.parametrize("role", ROLES)
def test_every_knob_has_a_reason(role: str) -> None:
    """A reader must not guess the meaning of a number."""
    assert [name for name, _, why in knobs(role) if not why] == []


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("keep_images", 0, "| cleanup | `keep_images` | 0 | 1 to 3 |  | why |\n"),
        ("tmp_mib", 4096, "| cleanup | `tmp_mib` | 4,096 | 1 to 3 | MiB | why |\n"),
        ("repository", "https://x", '| cleanup | `repository` | `"https://x"` | 1 to 3 |  | why |\n'),
        ("check_network", True, "| cleanup | `check_network` | `True` | 1 to 3 |  | why |\n"),
    ],
)
def test_a_knob_is_a_row_with_its_unit(name: str, value: object, line: str) -> None:
    """The unit is the end of the name."""
    assert row("cleanup", name, value, "why", "1 to 3") == line
