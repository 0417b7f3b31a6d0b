"""Texts of public sources are judged rightly by `check`, and migrated rightly by `migrate`."""

from __future__ import annotations

import ast

import pytest

from deploy.linter import check
from deploy.migrate.migration import migrate
from deploy.refusals.errors import Refusal
from tests.unit.pasted_public import CHECKED, MOVED, PUBLIC, Public


@pytest.mark.parametrize("public", CHECKED, ids=lambda public: public.source.replace(" ", "_"))
def test_a_public_text_has_the_findings_that_are_right_for_it(public: Public) -> None:
    """The findings about mistakes are in the expected order, and the expected notes are among the notes."""
    verdict = public.check or {}
    findings = [part for row in check(public.text, verdict.get("release", "")).checked for part in row.findings]
    assert [finding.kind for finding in findings if finding.is_wrong] == verdict.get("wrong", [])
    assert set(verdict.get("notes", [])) <= {finding.kind for finding in findings if not finding.is_wrong}


@pytest.mark.parametrize("public", MOVED, ids=lambda public: public.source.replace(" ", "_"))
def test_a_public_text_becomes_the_inventory_that_is_right_for_it(public: Public) -> None:
    """Words without a place are reported; a text without a model is refused."""
    verdict = public.migrate or {}
    if verdict.get("refused"):
        with pytest.raises(Refusal):
            migrate(public.text)
        return
    migration = migrate(public.text)
    untold = [
        words
        for words in verdict.get("told", [])
        if not any(finding.words.startswith(words) and not finding.place for finding in migration.findings)
    ]
    missing = [part for part in verdict.get("inventory", []) if part not in migration.inventory]
    assert (missing, untold, bool(ast.parse(migration.inventory))) == ([], [], True)


def test_the_table_holds_as_many_texts_as_were_asked_for() -> None:
    """The texts are earlier reports, and texts found since."""
    batches = [public.batch for public in PUBLIC]
    assert batches.count("field") >= 11 and len(batches) - batches.count("field") >= 40
