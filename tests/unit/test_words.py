"""Budgets for names and docstrings that a reader has to solve: each may only fall, and reaches zero room by room."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.unit.test_imports import ROOT, python_files

BANNED = frozenset(
    ["found", "told", "said", "asked", "given", "one", "each", "other", "over", "leave", "ways", "turned"]
)
"""Names that say nothing of what they hold: a noun of the field stands in their place."""
RIDDLES = re.compile(r"(What|Whatever|Who|Whom|Where|One|Nothing|Nobody|Those|So long|Keys that|Nobody's)\b")
"""First words of docstrings that begin with a clause instead of the thing."""
BUDGET = {
    "names": 0,
    "docstrings": 0,
}
"""Counts that are left. A change that makes a number fall writes the new one here; none may make it rise."""


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Every Python file of the repository, parsed."""
    return {file: ast.parse((ROOT / file).read_text("utf-8")) for file in python_files()}


def names(tree: ast.Module) -> Iterator[str]:
    """The names that a file gives: of variables, parameters, functions, classes, and attributes it assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a file: its own, and those of its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield ast.get_docstring(node) or ""


def test_names_that_say_nothing_grow_no_more() -> None:
    counted = Counter(name for tree in trees().values() for name in names(tree) if name.strip("_") in BANNED)
    assert counted.total() == BUDGET["names"], f"write {counted.total()} if it is less: {counted.most_common(5)}"


def test_docstrings_that_begin_with_a_clause_grow_no_more() -> None:
    riddles = [text.splitlines()[0] for tree in trees().values() for text in docstrings(tree) if RIDDLES.match(text)]
    assert len(riddles) == BUDGET["docstrings"], f"write {len(riddles)} if it is less"
