"""Our unit files in the eyes of systemd itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[2] / "files"
OURS = ("triton/host", "registry", "model_store", "health")
UNITS = sorted(path for folder in OURS for path in (FILES / folder).glob("*.service"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_knows_every_key(unit: Path) -> None:
    """It exits 0 on keys it does not know, so its words count."""
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in checked.stderr.splitlines() if "Unknown" in line or "Invalid" in line] == []
