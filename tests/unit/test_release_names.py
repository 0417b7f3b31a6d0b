"""The served releases are written only in the catalog: adding one is a row there and its golden files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from deploy.catalog.releases import (
    DEFAULT_RELEASE,
    LAST_ENGINE_TRTLLM,
    LAST_WITH_CUDA_12,
    LAST_WITH_ENGINES,
    OFFERED,
    RELEASES,
    first_offered,
)

ROOT = Path(__file__).parents[2]
NAMES = (*OFFERED, LAST_ENGINE_TRTLLM)
LITERAL = re.compile(rf"(?<![\w.])({'|'.join(re.escape(name) for name in NAMES)})(?![\w.]*\d)")


def texts(file: Path) -> Iterator[ast.Constant]:
    """Every text of a module that is not a docstring."""
    tree = ast.parse(file.read_text("utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node


def test_no_release_that_is_served_is_written_outside_the_catalog() -> None:
    """`DEFAULT_RELEASE`, `LAST_WITH_ENGINES` and `OFFERED` are used instead."""
    files = [file for room in ("deploy", "roles") for file in (ROOT / room).rglob("*.py")]
    assert len(files) > 100
    literals = [
        f"{file.relative_to(ROOT)}:{text.lineno} {text.value}"
        for file in files
        if not file.is_relative_to(ROOT / "deploy/catalog")
        for text in texts(file)
        if LITERAL.search(text.value)
    ]
    assert literals == []


def test_the_names_follow_from_the_rows() -> None:
    """The test has the present names; a new row changes these."""
    assert (DEFAULT_RELEASE, LAST_WITH_ENGINES, LAST_ENGINE_TRTLLM, LAST_WITH_CUDA_12, OFFERED) == (
        "26.07",
        "26.07",
        "1.2.1",
        "25.10",
        ("24.12", "25.04", "25.10", "26.02", "26.07"),
    )


def test_the_oldest_release_on_offer_that_is_new_enough_is_found() -> None:
    """The default is the result if none is."""
    assert [first_offered(trtllm) for trtllm in ("0.17.0", "1.1", "9.0")] == ["25.04", "26.02", DEFAULT_RELEASE]


def test_the_default_is_on_offer() -> None:
    """A release that is refused by name is not the default."""
    assert RELEASES[DEFAULT_RELEASE].offered
