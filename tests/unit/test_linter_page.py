"""The page of the linter: its examples print their shown output, and its table has the linter's own messages.

`GOLDEN=write pytest tests/unit/test_linter_page.py` rewrites it.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.linter import check
from deploy.linter.findings import Finding
from tests.unit.pasted import ALL

PAGE = Path(__file__).parents[2] / "deploy/linter/README.md"
EXAMPLE = re.compile(r"```console\n\$ (?P<command>.*?)\n(?P<output>.*?)```", re.S)
BLOCK = re.compile(
    r"(?<=<!-- guides: tests/unit/test_linter_page.py writes this -->\n)(.*?)(?=<!-- end of guides -->)", re.S
)
SHOWN = (
    "no-engine",
    "run-time-flag",
    "removed-flag",
    "value-not-offered",
    "elsewhere-flag",
    "never-flag",
    "prefix-flag",
    "script-absent",
    "experts-do-not-divide",
    "ranks-do-not-match",
    "no-such-module",
    "no-such-endpoint",
    "guide-name",
    "missing-key",
    "wrong-shape",
    "torch-replaced",
)
"""Kinds of finding, one row each: what operators lose hours to, not every slip of the pen."""


@pytest.mark.parametrize("example", list(EXAMPLE.finditer(PAGE.read_text())), ids=lambda match: match["command"][:60])
def test_every_example_prints_what_the_page_shows(example: re.Match[str]) -> None:
    """Each example is run as typed, and its whole output is compared."""
    program, *words = shlex.split(example["command"])
    assert (program, CliRunner().invoke(main, words).output) == ("enginehouse", example["output"])


def test_every_command_of_the_page_is_run() -> None:
    """No block with a command is left out above."""
    assert PAGE.read_text().count("$ enginehouse") == len(list(EXAMPLE.finditer(PAGE.read_text()))) > 2


def test_the_page_is_short() -> None:
    """The limit keeps the page readable."""
    assert len(PAGE.read_text().splitlines()) <= 120


def wrong() -> dict[str, Finding]:
    """The first finding of each kind, over all pasted commands in their order."""
    findings: dict[str, Finding] = {}
    for case in ALL.values():
        for command in check(case.text, case.release).checked:
            for finding in command.findings:
                if finding.is_wrong:
                    findings.setdefault(finding.kind, finding)
    return findings


def table() -> str:
    """The whole table in Markdown."""
    findings = wrong()
    rows = [
        f"| {code(findings[kind].seen)} | {why(findings[kind])} | {code(findings[kind].attempt)} |\n" for kind in SHOWN
    ]
    return "\n| as printed | what is wrong | what `check` offers |\n| --- | --- | --- |\n" + "".join(rows) + "\n"


def code(text: str) -> str:
    """The text as code, on one line, without bars, which would end the cell."""
    line = re.sub(r"\s+", " ", text).replace("`", "").replace("|", "\\|")
    return f"`{line.partition(': ')[2] if re.match('line [0-9]+: ', line) else line}`"


def why(finding: Finding) -> str:
    """The finding's headline."""
    return finding.problem.replace("|", "\\|")


def test_the_page_shows_what_check_says_of_the_guides_commands() -> None:
    """Every row is the linter's message about a command that a guide prints."""
    text = PAGE.read_text()
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(BLOCK.sub(lambda _: table(), text))
    assert BLOCK.findall(PAGE.read_text()) == [table()]


@pytest.mark.parametrize("kind", SHOWN)
def test_every_row_is_of_a_command_that_is_wrong(kind: str) -> None:
    """The correction differs from the printed command."""
    finding = wrong()[kind]
    assert finding.attempt not in ("", finding.seen)
