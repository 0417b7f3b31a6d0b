"""Every CI run tries the share of the faults that its commit's hash draws; all shares together are complete."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import draw

ROOT = Path(__file__).parents[2]
FORTY = [hashlib.sha1(f"commit {number}".encode()).hexdigest() for number in range(40)]


LISTING = """
import json, os

def pytest_collection_finish(session):
    rows = [[item.nodeid, getattr(getattr(item, "callspec", None), "indices", {})] for item in session.items]
    with open(os.environ["LISTING"], "w") as file:
        json.dump(rows, file)
"""
FAULTS = [
    str(path.relative_to(ROOT))
    for path in (ROOT / "tests").rglob("test_*.py")
    if re.search(r"^pytestmark.*mark\.faults", path.read_text("utf-8"), re.MULTILINE)
]


def collected(commit: str, scratch: Path) -> dict[str, dict[str, int]]:
    """The tests marked `faults` that a run would try, with the indices of their parameters."""
    (scratch / "listing.py").write_text(LISTING)
    environment = {name: value for name, value in os.environ.items() if name != draw.VARIABLE}
    environment |= {"LISTING": str(scratch / "listing"), "PYTHONPATH": f"{scratch}:{ROOT}"}
    environment |= {draw.VARIABLE: commit} if commit else {}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "faults", "-p", "no:cacheprovider"]
    words += ["--assert=plain", "-p", "listing", *sorted({str(Path(module).parent) for module in FAULTS})]
    ended = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return dict(json.loads((scratch / "listing").read_text()))


def test_forty_hashes_cover_every_fault(tmp_path: Path) -> None:
    """For one hash, pytest itself selects exactly the tests of its share."""
    whole = collected("", tmp_path)
    tried: dict[int, set[str]] = {
        share: {test for test, indices in whole.items() if draw.is_in(share, test.partition("::")[0], indices)}
        for share in map(draw.share_of, FORTY)
    }
    assert len(whole) > 200
    assert set(whole) - set().union(*tried.values()) == set()
    assert set(collected(FORTY[0], tmp_path)) == tried[draw.share_of(FORTY[0])]


def test_the_table_has_every_module_that_has_faults() -> None:
    assert set(draw.MODULES) == set(FAULTS)


def test_the_table_knows_the_lane_of_each() -> None:
    from tests.conftest import group_of

    assert {module: group_of(ROOT / module) for module in FAULTS} == {
        module: row.lane for module, row in draw.MODULES.items()
    }


@pytest.mark.parametrize("share", range(draw.SHARES))
def test_no_share_takes_longer_than_ci_has_for_it(share: int) -> None:
    assert draw.minutes_of(share) <= draw.BUDGET_MINUTES


def test_a_run_prints_its_draw_and_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw.words("abc1234" + "0" * 33).splitlines() == [
        "faults drawn from commit abc1234: share 4 of 5, test_doctor, test_gateway, test_partial, "
        "3 of 15 of test_kills_control_fetches, 3 of 15 of test_kills_host_fetches, 2 of 10 of test_cuts, "
        "test_beside, test_group_mpi, test_surface, test_canaries",
        "again: ENGINEHOUSE_FAULTS_DRAW=abc1234 make test-faults-share; all: make faults",
    ]
    monkeypatch.setenv(draw.VARIABLE, "abc1234")
    assert draw.share_of(draw.commit()) == draw.share_of("abc1234" + "0" * 33)


def test_a_name_that_is_no_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(draw.VARIABLE, "no-such-branch")
    with pytest.raises(ValueError, match="neither a hash of 7 digits or more nor a commit git knows here"):
        draw.commit()


def test_outside_of_git_a_run_says_that_it_drew_from_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    monkeypatch.setenv(draw.VARIABLE, "HEAD")
    assert draw.words(draw.commit()).startswith("faults drawn from 0000000, as no commit is known here: share 1 of 5, ")


def test_a_runs_report_gives_the_minutes_of_the_table(tmp_path: Path) -> None:
    case = '<testcase classname="tests.power.test_cuts" name="{}" time="{}"/>'
    (tmp_path / "report.xml").write_text(f"<testsuites>{case.format('a', 90)}{case.format('b', 60)}</testsuites>")
    assert draw.recorded(tmp_path / "report.xml") == {"tests/power/test_cuts.py": 2.5}
