"""A machine with its own kernel for all cuts: number 8, beside other rehearsals.

ENGINEHOUSE_FAULTS_KEEP=1 keeps it, and the snapshot it is made from, between runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements
from tests.power.ground import BARE, NUMBER, PLACES, READY, Ground, ready

KEPT = bool(os.environ.get("ENGINEHOUSE_FAULTS_KEEP"))


@pytest.fixture(scope="package")
def ground() -> Iterator[Ground]:
    """Yields the serving machine, removed before and afterwards."""
    if lacking := [*requirements.missing(PLACES, "qemu"), *requirements.missing_packages(for_faults=True)]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        if not KEPT:
            _throw_away()
        try:
            yield ready()
        finally:
            if not KEPT:
                _throw_away()


def _throw_away() -> None:
    machines.down(PLACES)
    for name in (READY, BARE):
        shutil.rmtree(PLACES.snapshots / name, ignore_errors=True)
