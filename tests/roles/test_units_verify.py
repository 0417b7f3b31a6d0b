"""Our unit files, verified by systemd itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[2] / "files" / "units"
UNITS = sorted(FILES.glob("*.service"))
HOLD_A_SECRET = ("enginehouse-pull@", "enginehouse-weights@", "triton@")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_knows_every_key(unit: Path) -> None:
    """systemd-analyze exits 0 on unknown keys, so its output counts."""
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in checked.stderr.splitlines() if "Unknown" in line or "Invalid" in line] == []


@pytest.mark.parametrize("unit", HOLD_A_SECRET)
def test_a_unit_that_holds_a_secret_leaves_no_core(unit: str) -> None:
    """Both limits are 0, because a process could raise its soft limit."""
    assert "\nLimitCORE=0\n" in (FILES / f"{unit}.service").read_text()


@pytest.mark.parametrize(
    ("unit", "directory"),
    [("enginehouse-pull@", "registry"), ("enginehouse-weights@", "weights")],
)
def test_systemd_itself_removes_the_secret_of_a_pull_and_of_a_fetch(unit: str, directory: str) -> None:
    """An ExecStopPost can be killed with the rest of its unit, and key or token would remain."""
    lines = (FILES / f"{unit}.service").read_text()
    assert f"\nRuntimeDirectory=enginehouse/{directory}/%i\nRuntimeDirectoryMode=0700\n" in lines
    assert "\nExecStopPost=" not in lines and "RuntimeDirectoryPreserve" not in lines
