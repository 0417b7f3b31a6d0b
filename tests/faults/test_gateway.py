"""The gateway of an only host: a release is swapped behind it while clients ask, and no request is lost."""

from __future__ import annotations

import json

import pytest

from rehearsal import gateway
from tests.faults.scene import PLACES, Scene
from tests.faults.through_gateway import loaded

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

INVENTORY = "tests/faults/inventories/behind_gateway.py"
PROCESSES = "systemctl show -P InvocationID -P MainPID 'enginehouse-gateway@*'"
LEFT = (
    "ls -d /etc/enginehouse/gateway /usr/local/lib/enginehouse/gateway /etc/systemd/system/*gateway* 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'enginehouse-gateway@*'"
)


@pytest.fixture
def behind_gateway(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The machine has the gateway that an only host has; a second run has nothing to do."""
    monkeypatch.setenv("FAULTS_BATCH", "24")
    first = scene.deploy(inventory=INVENTORY)
    assert first.code == 0, first.output[-4000:]
    assert scene.deploy(inventory=INVENTORY).is_silent
    return scene


def test_no_request_is_lost_while_the_only_host_swaps_its_release(
    behind_gateway: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests wait at the gateway until the new release serves; the gateway itself is not started anew."""
    before, release = behind_gateway.says(PROCESSES), behind_gateway.current()
    monkeypatch.setenv("FAULTS_BATCH", "16")
    with loaded(gateway.opened(behind_gateway.machine)) as load:
        run = behind_gateway.deploy(inventory=INVENTORY)
    waits = load.waits
    summary = {"sent": len(load.requests), "lost": len(load.lost), "longest_seconds": round(max(waits), 1)}
    (PLACES.root / "gateway.json").write_text(json.dumps(summary) + "\n")
    print(json.dumps(summary))
    assert run.code == 0 and behind_gateway.current() != release, run.output[-4000:]
    assert load.lost == [] and len(waits) == len(load.requests) > 0
    assert behind_gateway.says(PROCESSES) == before


def test_a_gateway_that_is_said_to_be_none_goes(behind_gateway: Scene) -> None:
    """With its programs, settings and keys."""
    run = behind_gateway.deploy()
    assert run.code == 0, run.output[-4000:]
    assert behind_gateway.says(LEFT) == ""
