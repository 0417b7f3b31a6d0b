"""A disk that is full, read-only, or slow, on a serving host."""

from __future__ import annotations

import pytest

from rehearsal.pyinfra_run import pyinfra
from tests.faults.heavy import checkpoint
from tests.faults.scene import NOTHING_SERVING, WELL, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

HEAVY = "tests/faults/inventories/heavy.py"
WEIGHTS = "/var/lib/enginehouse/weights/nomic-moe"


def test_a_disk_that_fills_up_ends_the_transfer_and_nothing_that_serves(scene: Scene) -> None:
    checkpoint(mib=40)
    before = scene.machine.run(f"ls {WEIGHTS}").stdout
    fault = named("full-disk")
    try:
        scene.mark()
        scene.machine.limit_rate("20mbit")  # so slow that the disk fills up during the transfer
        with scene.polled() as polls:
            run, touched = scene.deploy(inventory=HEAVY, fault=fault), scene.touched()
        findings, after = scene.diagnosed(), scene.machine.run(f"ls {WEIGHTS}").stdout
    finally:
        scene.machine.limit_rate(None)
        fault.undo(scene.machine)
    assert (run.code, fault.says in run.output, polls.missed, after) == (1, True, [], before)
    assert (NOTHING_SERVING in run.output, touched, findings >= {*fault.finds}) == (True, [], True)
    assert scene.deploy(inventory=HEAVY).code == 0
    assert scene.ends_well() == WELL


def test_a_file_system_without_writes_is_refused_before_the_first_change(scene: Scene) -> None:
    checkpoint(mib=40)
    scene.mark()
    with (fault := named("read-only")).on(scene.machine), scene.polled() as polls:
        run, findings, written = scene.deploy(inventory=HEAVY), scene.diagnosed(), scene.written()
    assert (run.code, fault.says in run.output, written, polls.missed) == (1, True, [], [])
    assert findings == {*fault.finds}
    assert "state   preflight; no host was changed" in run.output
    assert scene.ends_well() == WELL


def test_a_slow_disk_makes_a_deploy_longer_and_stops_nothing_before_the_swap(scene: Scene) -> None:
    checkpoint(mib=40)
    missed: list[float] = []
    with (fault := named("slow-disk")).on(scene.machine), scene.polled() as polls:
        assert scene.diagnosed() == {*fault.finds}, "one look cannot see it"
        swapping = lambda: missed.extend(polls.missed)  # noqa: E731
        run = pyinfra(HEAVY, "deploy.py", "-y", print_steps=False, at="Triton | Swap", strike=swapping)
    assert (run.code, missed) == (0, [])
    assert scene.deploy(inventory=HEAVY).is_silent
    assert scene.ends_well() == WELL
