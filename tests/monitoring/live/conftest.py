"""Three machines for all tests. ENGINEHOUSE_WATCHED_KEEP=1 keeps them, deployed and off, for the next time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rehearsal.places import RehearsalRefused
from tests.monitoring.live import scene
from tests.monitoring.live.scene import Watched

KEPT = bool(os.environ.get("ENGINEHOUSE_WATCHED_KEEP"))


@pytest.fixture(scope="session")
def watched() -> Iterator[Watched]:
    """Yields the machines, deployed to in one run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(scene.NUMBER))
        try:
            with scene.up(KEPT) as machines:
                yield machines
        except RehearsalRefused as refused:
            pytest.skip(str(refused))
