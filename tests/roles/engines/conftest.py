"""A separate signing key and cache for every test: the home directory is neither read nor written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.spec import EngineTrust
from roles.engines import keep


@pytest.fixture
def trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineTrust:
    """A key of this test for signing engines."""
    monkeypatch.setattr(keep, "CACHE", tmp_path / "cache")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key)], check=True)
    return EngineTrust(key=str(key))
