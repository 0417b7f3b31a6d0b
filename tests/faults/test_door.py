"""The front door of an only host: a release is swapped behind it while clients ask, and no request is lost."""

from __future__ import annotations

import json

import pytest

from rehearsal import door
from tests.faults.scene import PLACES, Scene
from tests.faults.through_door import loaded

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

INVENTORY = "tests/faults/inventories/doored.py"
PROCESSES = "systemctl show -P InvocationID -P MainPID 'enginehouse-gateway@*'"
LEFT = (
    "ls -d /etc/enginehouse/gateway /usr/local/lib/enginehouse/gateway /etc/systemd/system/*gateway* 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'enginehouse-gateway@*'"
)


@pytest.fixture
def doored(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The machine has the door that an only host has; a second run has nothing to do."""
    monkeypatch.setenv("FAULTS_BATCH", "24")
    first = scene.deploy(inventory=INVENTORY)
    assert first.code == 0, first.output[-4000:]
    assert scene.deploy(inventory=INVENTORY).is_silent
    return scene


def test_no_request_is_lost_while_the_only_host_swaps_its_release(
    doored: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests wait at the door until the new release serves; the door itself is not started anew."""
    before, release = doored.says(PROCESSES), doored.current()
    monkeypatch.setenv("FAULTS_BATCH", "16")
    with loaded(door.opened(doored.one)) as load:
        run = doored.deploy(inventory=INVENTORY)
    waits = load.waits
    told = {"sent": len(load.asked), "lost": len(load.lost), "longest_seconds": round(max(waits), 1)}
    (PLACES.root / "door.json").write_text(json.dumps(told) + "\n")
    print(json.dumps(told))
    assert run.code == 0 and doored.current() != release, run.output[-4000:]
    assert load.lost == [] and len(waits) == len(load.asked) > 0
    assert doored.says(PROCESSES) == before


def test_a_door_that_is_said_to_be_none_goes(doored: Scene) -> None:
    """With its programs, settings and keys."""
    run = doored.deploy()
    assert run.code == 0, run.output[-4000:]
    assert doored.says(LEFT) == ""
