"""Fixtures of the tests of a run's lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.roles.holding import Hosts


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """Hosts without a holder."""
    made = Hosts(tmp_path)
    yield made
    made.end()
