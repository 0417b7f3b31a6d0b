"""Tests of one rehearsal number never run at the same time, whatever the number of lanes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import group_of

TESTS = Path(__file__).parents[1]
MODULE = """
import os, pathlib, pytest
pytestmark = [pytest.mark.xdist_group("{group}")]
@pytest.mark.parametrize("number", range(4))
def test_where(number):
    with open("lanes", "a") as told:
        print("{group}", os.environ["PYTEST_XDIST_WORKER"], file=told)
"""


def test_a_group_stays_in_one_lane(tmp_path: Path) -> None:
    """pytest and xdist themselves are asked: two groups in three modules, two lanes."""
    shutil.copy(TESTS / "conftest.py", tmp_path)
    for name, group in (("a", "number-1"), ("b", "number-1"), ("c", "number-2")):
        (tmp_path / f"test_{name}.py").write_text(MODULE.format(group=group))
    words = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir=."]
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lanes = defaultdict(set)
    for line in (tmp_path / "lanes").read_text().splitlines():
        lanes[line.split()[0]].add(line.split()[1])
    assert {group: len(workers) for group, workers in lanes.items()} == {"number-1": 1, "number-2": 1}


def test_a_group_that_has_to_be_computed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text('pytestmark = pytest.mark.xdist_group(f"number-{NUMBER}")\n')
    with pytest.raises(pytest.UsageError, match="plain text"):
        group_of(tmp_path / "test_x.py")


def test_every_module_that_has_machines_names_its_group() -> None:
    faults = [path for path in TESTS.rglob("test_*.py") if "pytest.mark.faults" in path.read_text("utf-8")]
    modules = [*faults, *(TESTS / "rehearsal").glob("test_*.py")]
    assert len(modules) > 20
    assert [str(path) for path in modules if not group_of(path)] == []
