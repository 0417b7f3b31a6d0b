"""A fleet for all cases. ENGINEHOUSE_ROLLOUTS_KEEP=1 keeps its machines, off, for the next run of pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks import fleet
from rehearsal import machines, services
from rehearsal.places import RehearsalRefused
from tests.rollouts import weights
from tests.rollouts.scene import ALLOWED, HOSTS, Scene

KEPT = bool(os.environ.get("ENGINEHOUSE_ROLLOUTS_KEEP"))
BALANCER = "e1"


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """Yields three hosts with the same release behind a balancer of Debian 12."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(fleet.NUMBER))
        patch.setenv("ROLLOUT_OUT", str(ALLOWED))
        for name in ("ROLLOUT_CHANGES", "ROLLOUT_BAD"):
            patch.setenv(name, "")
        try:
            yield _kept() if KEPT and machines.known(fleet.PLACES) else _made()
        except RehearsalRefused as refused:
            pytest.skip(str(refused))
        finally:
            _stop_machines()


def _made() -> Scene:
    with fleet.up(len(HOSTS), 1, "12", keep=True) as (serving, edge):
        return ready(Scene(serving, edge[0]))


def _kept() -> Scene:
    (edge, *serving) = machines.up([BALANCER, *HOSTS], places=fleet.PLACES)
    services.services_up()
    return ready(Scene(serving, edge))


def ready(scene: Scene) -> Scene:
    """Returns the scene with the good release on its hosts, and the bad ones prepared."""
    weights.make(services.read_services().checkpoints / "minilm", fleet.PLACES.root / "weights")
    run = scene.deploy()
    assert run.code == 0, run.output[-4000:]
    return scene


def _stop_machines() -> None:
    if not KEPT:
        fleet.down()
        return
    # The balancer last, since hosts that stop ask it to drain them.
    for machine in reversed(machines.known(fleet.PLACES)):
        machine.stop()
    services.services_down()
