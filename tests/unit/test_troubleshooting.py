"""Every trouble in public guides, and every fault of the rehearsal, has a finding or a reason for none.

`GOLDEN=write pytest tests/unit/test_troubleshooting.py` rewrites the tables of deploy/doctor/README.md.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.doctor.catalogue import KINDS
from deploy.doctor.causes import PATTERN
from rehearsal.faults import FAULTS
from tests.unit.doctored import examined, ids
from tests.unit.test_doctor import units
from tests.unit.troubleshooting import ON_MACHINES, ROWS, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy/doctor/README.md"
UNASKED = "unasked"
"""The tests' name for a host that gave no answer: no finding, but a separate exit code."""
SILENT = {
    "slow-disk": "a slow disk is no state that one look can see",
    "kill-control": "the host ends what was begun",
    "power-cut": "the release of before serves again; a swap that had begun then has a verdict, `swap-refused`",
}
"""Faults without a finding, and why."""


def row_of(row: Row) -> str:
    return f"| {row.symptom} | {', '.join(f'`{name}`' for name in row.finds) or row.elsewhere} |"


def tables() -> tuple[str, str]:
    """The guides' rows; and the kinds of finding without a fault, guide or machine."""
    seen = {*ON_MACHINES, *(name for row in ROWS for name in row.finds)}
    seen |= {name for kind in FAULTS.values() for name in kind.finds}
    rest = "\n".join(f"- `{kind.id}`: {kind.means}" for kind in KINDS.values() if kind.id not in seen)
    return "\n".join(["| trouble | named by |", "| --- | --- |", *map(row_of, ROWS)]), rest


def test_the_page_has_every_row_and_every_finding() -> None:
    page, (rows, rest) = PAGE.read_text("utf-8"), tables()
    parts = page.split("<!-- written -->\n")
    written = "<!-- written -->\n".join([parts[0], f"\n{rows}\n\n", parts[2], f"\n{rest}\n\n", parts[4]])
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(written, "utf-8")
    assert PAGE.read_text("utf-8") == written


def test_the_guides_have_22_rows_and_each_is_named_by_somebody() -> None:
    assert (len(ROWS), [row.symptom for row in ROWS if bool(row.finds) == bool(row.elsewhere)]) == (22, [])


@pytest.mark.parametrize("row", [row for row in ROWS if row.finds], ids=lambda row: row.symptom)
def test_a_host_with_that_trouble_gets_that_finding(row: Row) -> None:
    """The log line of a failed server passes the host's own pattern; answers are those of such a host."""
    grep = subprocess.run(["grep", "-aoE", PATTERN], input=row.log, capture_output=True, text=True)
    causes = {"causes": "".join(f"      1 {phrase}\n" for phrase in grep.stdout.splitlines())}
    failed = units("ActiveState=active", "ActiveState=failed") if row.log else {}
    assert set(row.finds) <= set(ids(examined({**failed, **causes, **row.answers})))


def test_every_fault_has_a_finding_that_the_doctor_can_make_or_a_reason() -> None:
    assert {name for name, kind in FAULTS.items() if not kind.finds} == set(SILENT)
    assert {name for kind in FAULTS.values() for name in kind.finds} - set(KINDS) == {UNASKED}


@pytest.mark.parametrize("name", ON_MACHINES)
def test_a_finding_observed_on_a_machine_names_its_test(name: str) -> None:
    assert f'"{name}"' in (ROOT / f"tests/faults/{ON_MACHINES[name]}.py").read_text("utf-8")
