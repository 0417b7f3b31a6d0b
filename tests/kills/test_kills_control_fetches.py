"""The control process is killed at fifteen moments of a run in which the control machine fetches all weights."""

from __future__ import annotations

import pytest

from tests.kills.moments import drawn
from tests.kills.scene import GOOD, Scene

NUMBER, INVENTORY = 4, "tests/kills/inventories/control_fetches.py"
pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-4")]


@pytest.mark.parametrize("fraction", drawn(seed=20261122, count=15))
def test_a_plain_run_repairs_a_kill_at_any_moment(scene: Scene, fraction: float) -> None:
    moment, machine = scene.timeline.moment(fraction), scene.bare()
    killed = scene.killed(machine, moment)
    mended = scene.run()
    assert (killed.code, mended.code) == (-9, 0), f"killed {moment}\n{mended.output[-4000:]}"
    assert scene.ends(machine) == GOOD, f"killed {moment}"
