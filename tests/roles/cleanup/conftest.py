"""Fixtures of the program's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.roles.cleanup.spares import Host


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose server serves `now`, and served `before` last."""
    made = Host(tmp_path, monkeypatch)
    made.release("now", 0)
    made.release("before", 9, image="old")
    made.link("current", "now")
    made.link("previous", "before")
    return made
