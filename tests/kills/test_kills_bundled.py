"""A push from a bundle is killed at ten drawn bytes, with the receiving program on the host; the next run sends the
rest.

The moments are at the exchange of sizes, in and between parts of each kind, and at the rename of the weights. All kills
strike one push, one after the other: each run continues until the next remaining moment.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.bundle.contents import Contents
from rehearsal import machines, network, requirements, services
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from rehearsal.pyinfra_run import Run, control_pid, pyinfra
from tests.faults.scene import answers, until
from tests.kills import wire
from tests.kills.wire import Moment, Sent, Wire
from tests.rehearsal.operator import Operator

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-10")]

NUMBER, NAME, INVENTORY = 10, "pushed", "tests/faults/inventories/bundled.py"
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
BUNDLE = PLACES.root / "bundle"
SEED, MIB = 20261127, 1 << 20
LARGE_FILE, LARGE_LAYER = 16 * MIB, 64 * MIB
MOST_RUNS = 13
IN_FLIGHT, IN_FLIGHT_OF_APT = 4 * MIB, 64 * 1024
"""Most bytes that were on the line at a kill, and are sent again."""
RENAME = "the rename of the weights"
RECEIVERS = """
for pid in $(ss -Hntp state established '( dport = :5480 )' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  parent=$(ps -o ppid= -p $pid); test "$(ps -o comm= -p $parent)" = apt-get && kill -KILL $parent
  kill -KILL $pid
done
"""
FETCH = "systemctl kill --signal=KILL 'enginehouse-weights@*'"
STAGING = "/var/lib/enginehouse/weights/minilm/.*.partial"
ARCHIVES = "/var/cache/apt/archives"
DAMAGED = {
    "a package of the distribution": f"{ARCHIVES}/partial/*.deb",
    "between two packages": f"{ARCHIVES}/containerd.io*.deb {ARCHIVES}/partial/containerd.io*.deb",
    "the weights": f"{STAGING}/model.safetensors",
}
"""Files that a kill left on the host, partial or whole, of which a byte is then changed."""
DAMAGE = """
for file in {pattern}; do
  test -s "$file" || continue
  perl -e 'open F, "+<", $ARGV[0]; seek F, 4000, 0; read F, $b, 1; seek F, 4000, 0; print F chr(ord($b) ^ 1)' "$file"
  echo "$file"
done
"""


def moments() -> list[Moment]:
    """Returns ten moments; the seed draws the byte at which a part breaks."""
    chance = random.Random(SEED)
    return [
        Moment("the lists of packages", r"/(InRelease|Packages)", round(chance.random(), 3)),
        Moment("a package of the distribution", r"/system/.*\.deb$", round(chance.random(), 3)),
        Moment("between two packages", r"/docker/.*\.deb$", 1),
        Moment("a package of a publisher", r"/docker/.*\.deb$", round(chance.random(), 3)),
        Moment("the manifest of the image", r"/manifests/", 0),
        Moment("a layer", r"/blobs/", round(chance.random(), 3), LARGE_LAYER),
        Moment("between two layers", r"/blobs/", 1),
        Moment("the listing of the weights", r"/api/models/", 0),
        Moment("the weights", r"\.safetensors$", round(chance.random(), 3), LARGE_FILE),
        Moment(RENAME, r"\.safetensors$", 1, LARGE_FILE),
    ]


@dataclass
class Push:
    """A machine without a network, its bundle, and every run to it."""

    machine: Machine
    contents: Contents
    wire: Wire
    killed: list[str] = field(default_factory=list)
    """The moments, in the order in which they came."""
    runs: list[Run] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Files of the host of which a byte was changed after a kill."""

    def run(self) -> Run:
        """Runs a deploy like an operator; operator.log keeps its output and the moment of its kill."""
        before = len(self.killed)
        run = pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)
        self.runs.append(run)
        note = f", killed at {', '.join(self.killed[before:])}" if len(self.killed) > before else ""
        with (PLACES.root / "operator.log").open("a") as log:
            log.write(f"$ {INVENTORY}\n{run.output}exit {run.code} after {run.seconds:.1f} s{note}\n\n")
        return run

    def strike(self, moment: Moment) -> None:
        """Kills the run, and the program on the host that receives the part."""
        if moment.name == RENAME:
            root = self.machine.directory / "root"
            pattern = f"{STAGING.lstrip('/')}/manifest.sha256"
            wire.until(lambda: any(root.glob(pattern)), 30)
        self.killed.append(moment.name)
        if pid := control_pid(PLACES):
            os.kill(pid, signal.SIGKILL)
        self.machine.run(FETCH if moment.name == RENAME else RECEIVERS, check=False, timeout=60)
        if pattern := DAMAGED.get(moment.name):
            self.damaged += self.machine.run(DAMAGE.format(pattern=pattern), timeout=60).stdout.split()

    def bodies(self, path: str) -> list[Sent]:
        """Returns the answers with bytes of parts whose path matches, in order."""
        return [sent for sent in self.wire.sent if re.search(path, sent.path) and sent.passed]


@pytest.fixture(scope="module")
def push(monkeypatch_module: pytest.MonkeyPatch) -> Iterator[Push]:
    """Yields a bare machine without a network, whose push was killed at every moment."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    monkeypatch_module.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
    scratch = Path(tempfile.mkdtemp(prefix="wire-"))
    _throw_away()
    try:
        (machine,) = machines.up([NAME], places=PLACES)
        services.services_up()
        contents = bundled(machine)
        network.cut_off(Network(NUMBER))
        monkeypatch_module.setenv("TMPDIR", str(scratch))
        line = Wire(scratch, moments(), lambda moment: pushed.strike(moment))
        pushed = Push(machine, contents, line)
        with line.watching():
            for _ in range(MOST_RUNS):
                if line.moments:
                    pushed.run()
            yield pushed
    finally:
        network.reconnect(Network(NUMBER))
        shutil.rmtree(BUNDLE, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
        _throw_away()


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    """Yields changes of the environment for the module."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def bundled(machine: Machine) -> Contents:
    """Makes the bundle for the machine, with the rehearsal's network."""
    home = PLACES.root / "home"
    home.mkdir(parents=True, exist_ok=True)
    kernel = f"--kernel={machine.os}={machine.run('uname -r').stdout.strip()}"
    operator = Operator(NUMBER, PLACES.root / "operator.log", home)
    ran = operator.python("-m", "deploy", "bundle", INVENTORY, str(BUNDLE), kernel)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"[-4000:]
    return Contents.of_text((BUNDLE / "bundle.json").read_text())


def _throw_away() -> None:
    with contextlib.suppress(Exception):
        machines.down(PLACES)
    services.services_down()


def test_every_moment_came_and_its_run_was_killed(push: Push) -> None:
    assert (sorted(push.killed), push.wire.moments) == (sorted(moment.name for moment in moments()), [])
    assert [run.code for run in push.runs if run.code >= 0] == [], push.runs[-1].output[-4000:]


def test_a_partial_file_a_whole_package_and_weights_were_damaged(push: Push) -> None:
    assert len(push.damaged) == 3, push.damaged


def test_the_next_run_ends_well_and_the_one_after_it_changes_nothing(push: Push) -> None:
    run = push.run()
    assert run.code == 0, run.output[-4000:]
    assert until(lambda: answers(push.machine), 60)
    again = push.run()
    assert again.is_silent, again.output[-4000:]


def test_a_package_that_was_cut_is_resumed_and_the_others_are_sent_once(push: Push) -> None:
    parts: dict[str, list[Sent]] = {}
    for sent in push.bodies(r"\.deb$"):
        parts.setdefault(sent.path, []).append(sent)
    repeated = {path: bodies for path, bodies in parts.items() if len(bodies) > 1}
    resumed = [path for path, bodies in repeated.items() if bodies[-1].start]
    assert resumed, repeated
    damaged = {Path(path).name.partition("_")[0] for path in push.damaged}
    again = {Path(path).name.partition("_")[0] for path, bodies in repeated.items() if is_sent_again(bodies)}
    assert again == {name for name in damaged if name != "model.safetensors"}


def test_weights_are_resumed_and_damaged_ones_are_sent_again(push: Push) -> None:
    first, rest, *again = push.bodies(r"\.safetensors$")
    assert 0 < first.passed - rest.start <= IN_FLIGHT
    assert [sent.start for sent in again][:1] == [0]
    assert sum(sent.passed for sent in again) <= rest.size + IN_FLIGHT


def test_no_layer_is_sent_to_a_host_that_has_the_image(push: Push) -> None:
    """Docker keeps only whole images: after a kill of its daemon a layer begins anew, at most once for each kill."""
    sizes = {sent.path: sent.size for sent in push.bodies("/blobs/")}
    for path, size in sizes.items():
        assert sum(sent.passed == size for sent in push.bodies(re.escape(path))) <= 3


def is_sent_again(bodies: list[Sent]) -> bool:
    """Returns True if the part was sent from its beginning, after bytes of it had come."""
    return sum(sent.passed for sent in bodies) > bodies[0].size + IN_FLIGHT_OF_APT
