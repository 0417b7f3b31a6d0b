"""The table of README with what guides print is what `enginehouse check` says of it.

`GOLDEN=write pytest tests/unit/test_readme_guides.py` writes it anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from deploy.paste import check
from deploy.paste.findings import Finding
from tests.unit.pasted import ALL

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(
    r"(?<=<!-- guides: tests/unit/test_readme_guides.py writes this -->\n)(.*?)(?=<!-- end of guides -->)", re.S
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


def wrong() -> dict[str, Finding]:
    """The first finding of each kind, over all pasted commands in their order."""
    found: dict[str, Finding] = {}
    for case in ALL.values():
        for one in check(case.text, case.release).checked:
            for finding in one.findings:
                if finding.is_wrong:
                    found.setdefault(finding.kind, finding)
    return found


def table() -> str:
    """The whole table in Markdown."""
    found = wrong()
    rows = [f"| {code(found[kind].seen)} | {why(found[kind])} | {code(found[kind].attempt)} |\n" for kind in SHOWN]
    return "\n| as printed | what is wrong | what `check` offers |\n| --- | --- | --- |\n" + "".join(rows) + "\n"


def code(text: str) -> str:
    """As code, in one line; a bar would end the cell."""
    line = re.sub(r"\s+", " ", text).replace("`", "").replace("|", "\\|")
    return f"`{line.partition(': ')[2] if re.match('line [0-9]+: ', line) else line}`"


def why(finding: Finding) -> str:
    """Its headline."""
    return finding.problem.replace("|", "\\|")


def test_readme_shows_what_check_says_of_the_guides_commands() -> None:
    """Every row is the judge's own words about a command some guide prints."""
    text = README.read_text()
    if os.environ.get("GOLDEN") == "write":
        README.write_text(BLOCK.sub(lambda _: table(), text))
    assert BLOCK.findall(README.read_text()) == [table()]


@pytest.mark.parametrize("kind", SHOWN)
def test_every_row_is_of_a_command_that_is_wrong(kind: str) -> None:
    """And offers something else than what was printed."""
    finding = wrong()[kind]
    assert finding.attempt not in ("", finding.seen)
