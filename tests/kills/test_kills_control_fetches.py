"""The control process is killed at fifteen moments of a run in which the control machine fetches all weights."""

from __future__ import annotations

import pytest

from tests.kills.ground import GOOD, Ground
from tests.kills.moments import drawn

NUMBER, INVENTORY = 4, "tests/kills/inventories/control_fetches.py"
pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-4")]


@pytest.mark.parametrize("fraction", drawn(seed=20261122, count=15))
def test_a_plain_run_repairs_a_kill_at_any_moment(ground: Ground, fraction: float) -> None:
    moment, machine = ground.timeline.moment(fraction), ground.bare()
    killed = ground.killed(machine, moment)
    mended = ground.run()
    assert (killed.code, mended.code) == (-9, 0), f"killed {moment}\n{mended.output[-4000:]}"
    assert ground.ends(machine) == GOOD, f"killed {moment}"
