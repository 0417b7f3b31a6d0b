"""Every fault has a test, and the table of rehearsal/README.md has the faults' own descriptions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rehearsal.faults import FAULTS, fault, table
from rehearsal.faults.fault import BEFORE, SERVING
from rehearsal.machine import Machine
from rehearsal.places import Places, RehearsalRefused

ROOT = Path(__file__).parents[2]
NOT_SHOWN: set[str] = set()
"""Faults that no test on a machine shows yet."""


def test_every_other_fault_is_shown_on_a_machine() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests/faults").glob("test_*.py"))
    shown = {name for name, kind in FAULTS.items() if f'"{name}"' in tests or f"{kind.__name__}(" in tests}
    assert set(FAULTS) - shown == NOT_SHOWN


def test_every_fault_has_a_test_of_the_doctors_findings() -> None:
    files = (path.read_text("utf-8") for path in (ROOT / "tests/faults").glob("test_*.py"))
    functions = [part for file in files for part in file.split("\ndef ")[1:] if ".finds" in part]
    words = {name: (f'"{name}"', f"{kind.__name__}(") for name, kind in FAULTS.items()}
    held = {name for name, spellings in words.items() if any(word in part for part in functions for word in spellings)}
    assert set(FAULTS) == held


def test_the_page_tells_of_every_fault_in_its_own_words() -> None:
    page = ROOT / "rehearsal/README.md"
    before, _, after = page.read_text("utf-8").split("<!-- faults -->\n")
    if os.environ.get("GOLDEN") == "write":
        page.write_text("<!-- faults -->\n".join([before, f"\n{table()}\n\n", after]), "utf-8")
    assert page.read_text("utf-8").split("<!-- faults -->\n")[1] == f"\n{table()}\n\n"


def test_a_misspelt_fault_is_offered_the_right_one() -> None:
    with pytest.raises(RehearsalRefused, match=r"did you mean full-disk\?"):
        fault("ful-disk")


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_strikes_at_a_moment_a_deploy_has(name: str) -> None:
    labels = ("Model store | Send", "Triton | Swap")
    assert FAULTS[name].moment in (BEFORE, SERVING, *labels)


def test_a_fault_refuses_a_machine_it_cannot_be_shown_on(tmp_path: Path) -> None:
    directory = tmp_path / "machines/d13a"
    directory.mkdir(parents=True)
    (directory / "machine.json").write_text('{"name": "d13a", "kind": "nspawn"}')
    with pytest.raises(RehearsalRefused, match="clock-wrong cannot be shown on d13a, which is of kind nspawn"):
        fault("clock-wrong").strike(Machine("d13a", Places(tmp_path)))
