"""A release is swapped on three hosts behind their front doors: no request is lost, and none waits for a swap."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchmarks import fleet, front
from rehearsal import certificates, door
from rehearsal.door import Door
from rehearsal.pyinfra_run import Run
from tests.faults.scene import until
from tests.faults.through_door import Load, loaded
from tests.rollouts.scene import ALLOWED, BACK_SECONDS, HOSTS, POOL, Scene
from tests.rollouts.timeline import Timeline

INVENTORY = "tests/rollouts/inventories/doored.py"
DOOR_PORT = 9443
CHANGES = ("", "release")
"""The two releases that are swapped for each other: what ROLLOUT_CHANGES says."""


@dataclass
class Doors:
    """The fleet, and the one address at which its doors are reached."""

    scene: Scene
    door: Door

    def deploy(self, change: str) -> Run:
        """A run has ended that brings this release to every host."""
        os.environ |= {"ROLLOUT_CHANGES": change, "ROLLOUT_BAD": ""}
        return fleet.deploy(INVENTORY, self.scene._heard)


@pytest.fixture
def doors(scene: Scene) -> Iterator[Doors]:
    """Every host has a door behind a balancer that speaks TLS; a second run has nothing to do. Afterwards none has."""
    place = fleet.PLACES.root / "edge"
    certificates.certificate(place, ["door.rehearsal.internal"], [scene.edge.address])
    url = f"https://{scene.edge.address}:{DOOR_PORT}"
    found = Doors(scene, Door(url, "", str(place / "ca.crt")))
    run = found.deploy(CHANGES[0])
    assert run.code == 0, run.output[-4000:]
    found.door = door.behind(url, str(place / "ca.crt"), scene.serving)
    try:
        yield found
    finally:
        scene.release = os.environ["ROLLOUT_CHANGES"]
        assert scene.deploy().code == 0


def test_no_request_is_lost_and_none_waits_while_three_hosts_swap(doors: Doors) -> None:
    """The longest wait is shorter than the shortest time that a host was out: nobody stood before a closed door."""
    scene = doors.scene
    assert doors.deploy(CHANGES[0]).is_silent
    before = {name: scene.served(name) for name in HOSTS}
    with loaded(doors.door) as load, _watched(scene, load) as scene.timeline:
        assert until(scene.all_in, BACK_SECONDS), "not every host is in at first"
        run = doors.deploy(CHANGES[1])
        assert until(scene.all_in, BACK_SECONDS), "not every host is in again"
    out = scene.timeline.seconds_out()
    told = {
        "sent": len(load.asked),
        "lost": len(load.lost),
        "longest_seconds": round(max(load.waits), 2),
        "out_seconds": out,
        "least_in": scene.timeline.least_in(),
        "run_seconds": round(run.seconds),
    }
    (fleet.PLACES.root / "doors.json").write_text(json.dumps(told) + "\n")
    print(json.dumps(told))
    assert run.code == 0, run.output[-4000:]
    assert all(scene.served(name)[0] != before[name][0] for name in HOSTS)
    assert load.lost == [] and len(load.waits) == len(load.asked) > 0
    assert sorted(out) == list(HOSTS) and max(load.waits) < min(out.values()), told
    assert told["least_in"] == len(HOSTS) - ALLOWED


def _watched(scene: Scene, load: Load) -> Timeline:
    def counts() -> dict[str, int]:
        done = [one for one in load.asked if one.done()]
        lost = sum(one.exception() is not None for one in done)
        return {"right": len(done) - lost, "lost": lost}

    exporter = f"http://{scene.edge.address}:{front.METRICS_PORT}/metrics"
    return Timeline(exporter, POOL, counts, lambda event: None)
