"""A machine with its own kernel for all cuts: number 8, beside other rehearsals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements
from tests.power.ground import BARE, NUMBER, PLACES, Ground, ready


@pytest.fixture(scope="package")
def ground() -> Iterator[Ground]:
    """Yields the serving machine, removed before and afterwards."""
    if lacking := [*requirements.missing(PLACES, "qemu"), *requirements.missing_packages(for_faults=True)]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        _throw_away()
        try:
            yield ready()
        finally:
            _throw_away()


def _throw_away() -> None:
    machines.down(PLACES)
    shutil.rmtree(PLACES.snapshots / BARE, ignore_errors=True)
