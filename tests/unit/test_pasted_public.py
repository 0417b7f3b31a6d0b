"""Texts of public sources are judged rightly by `check`, and migrated rightly by `migrate`."""

from __future__ import annotations

import ast

import pytest

from deploy.linter import check
from deploy.linter.config_files import as_script
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


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\r"])
def test_ends_of_a_line_that_only_yaml_knows_do_not_move_the_commands(end: str) -> None:
    steps = "    steps:\n      - run: vllm serve Qwen/Qwen3-8B\n    container: vllm/vllm-openai:v0.11.0\n"
    assert "Qwen/Qwen3-8B" in migrate(f'jobs:\n  a:\n    name: "a{end}b"\n{steps}').inventory


def test_options_of_a_service_on_several_lines_are_one_command() -> None:
    options = "        options: |\n          --gpus all\n          --shm-size 1g\n"
    image = "        image: vllm/vllm-openai:v0.11.0\n"
    text = f"jobs:\n  a:\n    services:\n      llm:\n{image}{options}    steps:\n      - run: pytest\n"
    assert "docker run --gpus all --shm-size 1g vllm/vllm-openai:v0.11.0" in as_script(text)[0]
