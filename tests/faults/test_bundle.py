"""A machine that can reach only the control machine's SSH is deployed from a bundle, without other requests.

The test writes a bundle of the rehearsal with a network. Then the bridge passes only answers and counts attempts. The
tests run in this order: deploy, requests, second run, refusal, and a run with a network.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.bundle.contents import Contents
from deploy.io.bundle_store import Store
from rehearsal import network
from rehearsal.network import Network
from rehearsal.pyinfra_run import Run
from tests.faults.scene import NUMBER, PLACES, Scene, answers, fresh, until
from tests.rehearsal.operator import Operator

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

INVENTORY = "tests/faults/inventories/bundled.py"
BUNDLE = PLACES.root / "bundle"
TRY = "timeout 3 bash -c '</dev/tcp/10.213.{number}.1/8480'"
KERNEL = "uname -r"


@dataclass(frozen=True)
class Closed:
    """The machine without a network, its bundle, the first run, and the packets that the run tried to send."""

    scene: Scene
    contents: Contents
    first: Run
    tried: int


@pytest.fixture(scope="module")
def closed() -> Iterator[Closed]:
    """Yields a bare machine, bundled for with a network and deployed to without one."""
    scene = Scene(fresh())
    home = PLACES.root / "home"
    home.mkdir(parents=True, exist_ok=True)
    operator = Operator(NUMBER, PLACES.root / "operator.log", home)
    kernel = scene.says(KERNEL)
    system = scene.machine.os
    for words in ((f"--kernel={system}={kernel}",), ("--verify",)):
        ran = operator.python("-m", "deploy", "bundle", INVENTORY, str(BUNDLE), *words)
        assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"[-4000:]
    contents = Contents.of_text((BUNDLE / "bundle.json").read_text())
    network.cut_off(Network(NUMBER))
    try:
        first = scene.deploy(inventory=INVENTORY)
        yield Closed(scene, contents, first, network.packets_tried(Network(NUMBER)))
    finally:
        network.reconnect(Network(NUMBER))
        shutil.rmtree(BUNDLE, ignore_errors=True)


def test_a_bundled_deploy_sends_no_packet_to_other_hosts(closed: Closed) -> None:
    assert closed.first.code == 0, closed.first.output[-4000:]
    assert closed.tried == 0


def test_the_bundled_host_serves(closed: Closed) -> None:
    assert until(lambda: answers(closed.scene.machine), 60)


def test_a_second_run_changes_nothing_and_contacts_no_other_host(closed: Closed) -> None:
    again = closed.scene.deploy(inventory=INVENTORY)
    assert (again.is_silent, network.packets_tried(Network(NUMBER))) == (True, 0), again.output[-3000:]


def test_no_listener_of_the_bundle_is_left_after_a_run(closed: Closed) -> None:
    assert closed.scene.says("ss -Hltn | grep 127.0.0.1:5480") == ""


@pytest.mark.parametrize("damage", ["flipped byte", "missing part", "changed list"])
def test_a_damaged_bundle_is_refused_and_the_machine_is_not_touched(closed: Closed, damage: str) -> None:
    store, sha256 = Store(BUNDLE), max(closed.contents.objects, key=closed.contents.objects.__getitem__)
    victim = BUNDLE / "bundle.json" if damage == "changed list" else store.place(sha256)
    kept = Path(f"{victim}.kept")
    victim.rename(kept)
    try:
        if damage != "missing part":
            shutil.copyfile(kept, victim)
            with victim.open("r+b") as content:
                content.seek(1000)
                byte = content.read(1)
                content.seek(1000)
                content.write(bytes([byte[0] ^ 1]))
        closed.scene.mark()
        run = closed.scene.deploy(inventory=INVENTORY)
    finally:
        kept.rename(victim)
    problem = {
        "flipped byte": "has other bytes than it was signed with",
        "missing part": "is not whole",
        "changed list": "is not signed by a key of this inventory",
    }[damage]
    assert (run.code, problem in run.output) == (1, True), run.output[-3000:]
    assert closed.scene.written() == []


def test_the_bridge_counts_a_machines_blocked_connections(closed: Closed) -> None:
    """Next to last: this test shows that the zero above means something."""
    closed.scene.says(TRY.format(number=NUMBER))
    assert network.packets_tried(Network(NUMBER)) > 0


def test_with_a_network_again_it_reads_its_own_sources(closed: Closed) -> None:
    network.reconnect(Network(NUMBER))
    assert closed.scene.ends_well() == [0, "silent", True]
    assert closed.scene.says("ls /etc/apt/apt.conf.d/52enginehouse-sources 2>/dev/null") == ""
