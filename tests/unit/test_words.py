"""Names are nouns of the field, and docstrings begin with their subject."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.test_imports import ROOT, python_files

BANNED = frozenset(
    ["found", "told", "said", "asked", "given", "one", "each", "other", "over", "leave", "ways", "turned"]
)
"""Names that do not say what their values are: a noun of the field stands in their place."""
RIDDLES = re.compile(
    r"(What|Whatever|Who|Whom|Where|One|Nothing|Nobody|Those|So long|Keys that|Nobody's|Whether|How|Why|Which|When"
    r"|Otherwise|Meanwhile|Therefore|Such)\b"
)
"""First words of docstrings that begin with a clause instead of the thing."""
LABEL = re.compile(r"[A-Z][A-Za-z ]* \| (.+)", re.DOTALL)
CONTEXT = re.compile(r"\b(what|who|whom|whose|whether|how|nothing|nobody|it|them)\b")
"""Words that make the label of an operation a riddle: the operator sees one label at a time."""
POINTERS = frozenset(
    ["around", "beside", "elsewhere", "every", "given", "known", "other", "others", "ours", "placed", "together"]
)
"""Names of modules that point at a thing without naming it."""
UNREAD = re.compile(r"test_\w*_(told|said|nobody|whoever|whatever|whom|anybody)(_\w+)?")
"""Names of tests that have to be solved, because they name neither the subject nor its effect."""
MOST_WORDS = 12
"""Words of a test's name."""
BUDGET = {
    "names": 0,
    "docstrings": 0,
    "long names of tests": 245,
}
"""Counts that may be left, and may only fall: none of the first two since 2026-11-27."""


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Every Python file of the repository, parsed."""
    return {file: ast.parse((ROOT / file).read_text("utf-8")) for file in python_files()}


def names(tree: ast.Module) -> Iterator[str]:
    """The names that a file defines: of variables, parameters, functions, classes, and assigned attributes."""
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


def test_no_name_is_on_the_banned_list() -> None:
    banned = [f"{file}: {name}" for file, tree in trees().items() for name in names(tree) if name.strip("_") in BANNED]
    assert len(banned) == BUDGET["names"], banned


def test_no_docstring_begins_with_a_clause() -> None:
    riddles = [
        f"{file}: {text.splitlines()[0]}"
        for file, tree in trees().items()
        for text in docstrings(tree)
        if RIDDLES.match(text)
    ]
    assert len(riddles) == BUDGET["docstrings"], riddles


def labels(tree: ast.Module) -> Iterator[str]:
    """The part after `Role | ` of each label of an operation."""
    for node in ast.walk(tree):
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(piece.value) if isinstance(piece, ast.Constant) else "X" for piece in pieces)
        if label := LABEL.fullmatch(text):
            yield label[1]


def test_the_label_of_an_operation_can_be_read_alone() -> None:
    """A label has a verb and its object, as `Triton | Publish release …`."""
    verbs = ("deploy.py", "build.py", "rollback.py", "remove.py")
    files = {file: tree for file, tree in trees().items() if file.parts[0] == "roles" or str(file) in verbs}
    all_labels = [(file, label) for file, tree in files.items() for label in labels(tree)]
    assert len(all_labels) > 100
    riddles = [f"{file}: {label}" for file, label in all_labels if CONTEXT.search(label.partition(":")[0])]
    assert riddles == []


def test_a_module_of_production_is_named_by_its_content() -> None:
    production = ("deploy", "roles", "files")
    assert [str(file) for file in trees() if file.parts[0] in production and file.stem in POINTERS] == []


def test_the_name_of_a_test_can_be_read_without_its_body() -> None:
    tests = [f"{file}: {name}" for file, tree in trees().items() for name in names(tree) if name.startswith("test_")]
    assert [test for test in tests if UNREAD.fullmatch(test.partition(": ")[2])] == []
    long = [test for test in tests if test.partition(": ")[2].count("_") > MOST_WORDS]
    assert len(long) <= BUDGET["long names of tests"], long
