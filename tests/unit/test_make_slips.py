"""Slips on the command line of make: each is refused before any host of another inventory could be changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def dry(*words: str) -> tuple[int, str]:
    """The exit status and the output of `make -n`, which runs no recipe."""
    argv = ["make", "--no-print-directory", "-n", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("plan inventory=inventories/fleet.py", "make plan INVENTORY=inventories/fleet.py"),
        ("deploy inventories/fleet.py", "make deploy INVENTORY=inventories/fleet.py"),
        ("inventories/fleet.py deploy", "make deploy INVENTORY=inventories/fleet.py"),
        ("deploy INVENTORY=", "make deploy INVENTORY=inventories/h100.py"),
        ("deploy LIMIT=h100-01", "pyinfra inventories/h100.py deploy.py --limit h100-01"),
        ("plan hosts=h100-01", "enginehouse plan inventories/h100.py --limit h100-01"),
        ("deploy DATA=only=gateway", "pyinfra inventories/h100.py deploy.py --data only=gateway"),
        ("deploy INVENTORY=inventories/mig.py DRY=1", "pyinfra inventories/mig.py deploy.py --dry"),
    ],
)
def test_a_word_that_make_would_ignore_is_refused_with_the_line_that_was_meant(words: str, meant: str) -> None:
    status, output = dry(*words.split())
    assert status == 2
    assert meant in output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("plna", "make plan"),
        ("units", "make unit"),
        ("tests", "make test"),
        ("rehearsal", "make rehearse"),
        ("x", "make help"),
    ],
)
def test_an_unknown_target_is_refused_with_the_nearest(words: str, meant: str) -> None:
    argv = ["make", "--no-print-directory", words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"There is no target {words}. Write: {meant}" in done.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan INVENTORY=inventories/fleet.py", "-m deploy plan inventories/fleet.py"),
        ("rehearse MACHINES=d12a FAULT=reboot", "rehearsal.rehearse d12a --fault reboot"),
        ("unit PYTEST_ARGS=-k=host", "-k=host"),
        ("plan HF_TOKEN=x", "-m deploy plan inventories/h100.py"),
    ],
)
def test_right_lines_are_taken(words: str, line: str) -> None:
    """Variables of the environment may stand on the line, too."""
    status, output = dry(*words.split())
    assert (status, line in output) == (0, True), output
