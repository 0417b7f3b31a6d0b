"""The gateway of an only host: a swap behind it loses no request, and a power cut loses no usage."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rehearsal import gateway
from rehearsal.places import REPOSITORY
from tests.faults.scene import PLACES, Scene, healthy, until
from tests.faults.through_gateway import loaded

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

INVENTORY = "tests/faults/inventories/behind_gateway.py"
PROCESSES = "systemctl show -P InvocationID -P MainPID 'enginehouse-gateway@*'"
ANSWERED = 40
"""Requests before the cut, and after it."""
LEFT = (
    "ls -d /etc/enginehouse/gateway /usr/local/lib/enginehouse/gateway /etc/systemd/system/*gateway* 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'enginehouse-gateway@*'"
)


@pytest.fixture
def behind_gateway(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Returns the machine with an only host's gateway; a second run has no changes."""
    monkeypatch.setenv("FAULTS_BATCH", "24")
    first = scene.deploy(inventory=INVENTORY)
    assert first.code == 0, first.output[-4000:]
    assert scene.deploy(inventory=INVENTORY).is_silent
    return scene


def test_no_request_is_lost_while_the_only_host_swaps_its_release(
    behind_gateway: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests wait at the gateway until the new release serves; the gateway does not restart."""
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


def used() -> int:
    """Returns the rehearsal tenant's request count from `enginehouse usage` over SSH."""
    words = ["-m", "deploy", "usage", INVENTORY, "--by", "tenant", "--json"]
    shown = subprocess.run([sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    return sum(line["requests"] for line in json.loads(shown.stdout)["usage"] if line["tenant"] == gateway.TENANT)


def test_usage_outlives_a_host_whose_power_is_cut_under_load(behind_gateway: Scene) -> None:
    """The count lacks at most the requests in progress, and has no request twice. This machine keeps its page cache;
    the machine of tests/power/test_usage.py loses it."""
    machine = behind_gateway.machine
    before, reached = used(), gateway.opened(machine)
    with loaded(reached) as load:
        assert until(lambda: ANSWERED <= sum(request.done() for request in load.requests) < len(load.requests), 300, 0)
        under_way = sum(not request.done() for request in load.requests)
        machine.cut_power()
        under_way += sum(not request.done() for request in load.requests)
        machine.start()  # the rebooted kernel resets connections that it does not know
    answered_before = len(load.waits)
    assert until(lambda: healthy(machine), 300, 1.0)
    with loaded(gateway.opened(machine)) as load_after:
        assert until(lambda: sum(request.done() for request in load_after.requests) >= ANSWERED, 300, 0.1)
    counted, answered = used() - before, answered_before + len(load_after.waits)
    summary = {"answered": answered, "counted": counted, "under_way_at_the_cut": under_way}
    (PLACES.root / "usage.json").write_text(json.dumps(summary) + "\n")
    print(json.dumps(summary))
    assert load_after.lost == [] and abs(counted - answered) <= under_way


def test_a_gateway_set_to_none_is_removed(behind_gateway: Scene) -> None:
    """The gateway's programs, settings and keys are removed too."""
    run = behind_gateway.deploy()
    assert run.code == 0, run.output[-4000:]
    assert behind_gateway.says(LEFT) == ""
