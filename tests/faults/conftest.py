"""The machine of all faults: bare at first, then serving; recreated from a snapshot if a test left it broken.

It runs beside a rehearsal somebody may have up: another number, so another bridge, other services and another state
directory. ENGINEHOUSE_FAULTS_KEEP=1 keeps it between runs, for whoever works on one test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements, services
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from tests.faults.scene import NAME, NUMBER, PLACES, SERVED, Scene, fresh, healthy

KEPT = bool(os.environ.get("ENGINEHOUSE_FAULTS_KEEP"))


@pytest.fixture(scope="package", autouse=True)
def rehearsal() -> Iterator[None]:
    """The rehearsal's number for every program started here; removed before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        if not KEPT:
            _throw_away()
        try:
            yield
        finally:
            if not KEPT:
                _throw_away()


@pytest.fixture(scope="package")
def bare() -> Scene:
    """The machine as it comes from the provider."""
    return Scene(fresh())


@pytest.fixture(scope="package")
def first_deploy() -> str:
    """The machine serves, and its state is kept for those who must start anew. Returns the snapshot's name."""
    if not (PLACES.snapshots / SERVED).exists():
        scene = Scene(_existing())
        run = scene.deploy()
        assert run.code == 0, run.output[-4000:]
        scene.machine.stop()
        machines.snapshot(scene.machine, SERVED)
        scene.machine.start()
    return SERVED


@pytest.fixture
def scene(first_deploy: str) -> Scene:
    """The machine, serving the rehearsal's own inventory."""
    return _serving(first_deploy)


@pytest.fixture(scope="module")
def serving(first_deploy: str) -> Scene:
    """The machine after a deploy, for the read-only tests of a module."""
    return _serving(first_deploy)


def _serving(first_deploy: str) -> Scene:
    scene = Scene(machine) if (machine := _started()) else None
    if scene is None or scene.deploy().code or not healthy(scene.machine):
        scene = Scene(fresh(first_deploy))
        run = scene.deploy()
        assert run.code == 0, run.output[-4000:]
    return scene


def _existing() -> Machine:
    try:
        machine = machines.named(NAME, PLACES)
    except RehearsalRefused:
        return fresh()
    services.services_up()
    machine.start()
    return machine


def _started() -> Machine | None:
    """The machine as the test before left it; None if it left one that does not come up, so that only that test
    tells of it."""
    try:
        return _existing()
    except RehearsalRefused:
        return None


def _throw_away() -> None:
    machines.down(PLACES)
    services.services_down()
    shutil.rmtree(PLACES.snapshots / SERVED, ignore_errors=True)
