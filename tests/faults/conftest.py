"""The machine of all faults: bare at first, then serving; a snapshot restores it if a test left it broken.

It has its own number, and so its own bridge, services and state directory beside another running rehearsal.
ENGINEHOUSE_FAULTS_KEEP=1 keeps it between runs, for work on one test.
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
    """Sets the rehearsal's number for every program started here; removes the rehearsal before and afterwards."""
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
    """Returns a machine in the provider's initial state."""
    return Scene(fresh())


@pytest.fixture(scope="package")
def first_deploy() -> str:
    """Deploys the machine, keeps a snapshot of its state for later restores, and returns the snapshot's name."""
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
    """Returns the machine, serving the rehearsal's own inventory."""
    return _serving(first_deploy)


@pytest.fixture(scope="module")
def serving(first_deploy: str) -> Scene:
    """Returns the machine after a deploy, for the read-only tests of a module."""
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
    """Returns the machine in the state that the previous test left; None if it does not start,
    so that only that test reports it.
    """
    try:
        return _existing()
    except RehearsalRefused:
        return None


def _throw_away() -> None:
    machines.down(PLACES)
    services.services_down()
    shutil.rmtree(PLACES.snapshots / SERVED, ignore_errors=True)
