"""A release is swapped on three hosts behind gateways: no request is lost, and none waits for a swap.

It leaves gateways on the hosts, so it is named to come after the tests that share them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import pytest

from benchmarks import fleet, front
from rehearsal import certificates, gateway
from rehearsal.gateway import Gateway
from rehearsal.pyinfra_run import Run
from roles.gateway.defaults import AUTHORITY, CERTIFICATE
from tests.faults.scene import until
from tests.faults.through_gateway import Load, loaded
from tests.rollouts.scene import ALLOWED, BACK_SECONDS, HOSTS, POOL, Scene
from tests.rollouts.timeline import Timeline

INVENTORIES = "tests/rollouts/inventories"
GATEWAY_PORT, GATEWAYS_PORT = 9443, 8009
CHANGES = ("", "release")
"""Values of ROLLOUT_CHANGES for the two releases that replace each other."""
READY = "curl --silent --show-error --max-time 3 --output /dev/null --write-out '%{{http_code}}' {words} {url}"


@dataclass
class Gateways:
    """The fleet with gateways, its inventory, and the one address of the gateways."""

    scene: Scene
    inventory: str
    gateway: Gateway
    change: str

    def deploy(self) -> Run:
        """Deploys the release of `change` to every host."""
        os.environ |= {"ROLLOUT_CHANGES": self.change, "ROLLOUT_BAD": ""}
        return fleet.deploy(f"{INVENTORIES}/{self.inventory}.py", self.scene._heard)


@pytest.fixture
def gateways(scene: Scene) -> Gateways:
    """Returns a fleet with a gateway on every host, behind a balancer with TLS; a second run has no changes."""
    place = fleet.PLACES.root / "edge"
    certificates.certificate(place, ["gateway.rehearsal.internal"], [scene.edge.address])
    ca = str(place / "ca.crt")
    deployed = _deployed(Gateways(scene, "behind_gateway", Gateway("", "", ca), _now()))
    deployed.gateway = gateway.behind(f"https://{scene.edge.address}:{GATEWAY_PORT}", ca, scene.serving)
    return deployed


@pytest.fixture
def one_gateway(scene: Scene) -> Gateways:
    """Returns a fleet whose first host has a gateway that sends to all three; a second run has no changes."""
    deployed = _deployed(Gateways(scene, "one_gateway", Gateway("", ""), _now()))
    deployed.gateway = gateway.opened(scene.host("h1"))
    return deployed


def test_no_request_is_lost_and_none_waits_while_three_hosts_swap(gateways: Gateways) -> None:
    """The longest wait is shorter than the shortest time that a host was out: no request waited for a host."""
    _swaps_unnoticed(gateways)


def test_a_gateway_of_three_hosts_loses_no_request(one_gateway: Gateways) -> None:
    """The gateway sends to the other hosts over mutual TLS; its own host is swapped as well."""
    _swaps_unnoticed(one_gateway)


def test_only_the_gateway_comes_in_where_gateways_of_other_hosts_do(one_gateway: Gateways) -> None:
    """Only its certificate from its host is accepted; others fail in the handshake, or before it."""
    scene = one_gateway.scene
    url = f"https://{scene.host('h2').address}:{GATEWAYS_PORT}/ready/main"
    own = f"--cacert {AUTHORITY} --cert {CERTIFICATE}"
    statuses = {
        "gateway": scene.host("h1").run(READY.format(words=own, url=url), check=False).stdout,
        "without a certificate": scene.host("h1").run(READY.format(words="--insecure", url=url), check=False).stdout,
        "another host": scene.host("h3").run(READY.format(words="--insecure", url=url), check=False).stdout,
    }
    assert statuses == {"gateway": "200", "without a certificate": "000", "another host": "000"}


def _deployed(gateways: Gateways) -> Gateways:
    run = gateways.deploy()
    assert run.code == 0, run.output[-4000:]
    assert gateways.deploy().is_silent
    return gateways


def _now() -> str:
    """Returns the change that the last run deployed."""
    return os.environ.get("ROLLOUT_CHANGES", "")


def _swaps_unnoticed(gateways: Gateways) -> None:
    scene = gateways.scene
    before = {name: scene.served(name) for name in HOSTS}
    gateways.change = CHANGES[gateways.change == CHANGES[0]]
    with loaded(gateways.gateway) as load, _watched(scene, load) as scene.timeline:
        assert until(scene.all_in, BACK_SECONDS), "not every host is in at first"
        run = gateways.deploy()
        assert until(scene.all_in, BACK_SECONDS), "not every host is in again"
    out = scene.timeline.seconds_out()
    figures = {
        "gateways": gateways.inventory,
        "sent": len(load.requests),
        "lost": len(load.lost),
        "longest_seconds": round(max(load.waits), 2),
        "out_seconds": out,
        "least_in": scene.timeline.least_in(),
        "run_seconds": round(run.seconds),
    }
    with (fleet.PLACES.root / "swaps.jsonl").open("a") as file:
        file.write(json.dumps(figures) + "\n")
    print(json.dumps(figures))
    assert run.code == 0, run.output[-4000:]
    assert all(scene.served(name)[0] != before[name][0] for name in HOSTS)
    assert load.lost == [] and len(load.waits) == len(load.requests) > 0
    assert sorted(out) == list(HOSTS) and max(load.waits) < min(out.values()), figures
    assert figures["least_in"] == len(HOSTS) - ALLOWED


def _watched(scene: Scene, load: Load) -> Timeline:
    def counts() -> dict[str, int]:
        done = [request for request in load.requests if request.done()]
        lost = sum(request.exception() is not None for request in done)
        return {"right": len(done) - lost, "lost": lost}

    exporter = f"http://{scene.edge.address}:{front.METRICS_PORT}/metrics"
    return Timeline(exporter, POOL, counts, lambda event: None)
