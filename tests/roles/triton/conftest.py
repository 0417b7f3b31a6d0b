"""Hosts with histories, for the tests of rollback.py."""

from __future__ import annotations

import pytest

from tests.roles.triton.histories import Machines, planned_over


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Four hosts of one pool in three waves, without an earlier deploy."""
    planned_over(monkeypatch)
    return Machines()
