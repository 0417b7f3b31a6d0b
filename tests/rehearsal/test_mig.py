"""A GPU divided into MIG instances on a machine: planned, divided, given to containers, restored, undone.

The machine has its own number beside another running rehearsal. Only the software below serving is installed, since MIG
concerns only that; containers that attach the devices prove them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal import machines, requirements
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.rehearsal.operator import Operator, Run

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-6")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-6", 6)
CUT, WHOLE = "tests/rehearsal/inventories/cut.py", "tests/rehearsal/inventories/whole.py"
VERB = "tests/rehearsal/verbs/foundation.py"
DEVICES = "nvidia-smi -L | grep -oE 'MIG [0-9]g[^ ]+' || true"
NAMES = "nvidia-ctk cdi list 2>/dev/null | grep -E '=[0-9]'"
LEFT = "/etc/systemd/system/enginehouse-mig.service /etc/enginehouse/mig.json"
HALVES = ["MIG 4g.40gb", "MIG 3g.40gb"]
# Holds a MIG instance as another program would, by an open capability node. No driver is behind the nodes, so only
# their paths can be held.
HOLD = """systemd-run --quiet --unit=notebook python3 -c '
import os
for name in ("nvidia0", "nvidia-caps/nvidia-cap12"):
    os.set_inheritable(os.open(f"/dev/{name}", os.O_PATH), True)
os.execlp("sleep", "sleep", "600")'"""


@dataclass(frozen=True)
class Cut:
    """The machine, its operator, and the runs so far."""

    machine: Machine
    operator: Operator
    dry: Run
    first: Run

    def run(self, inventory: str, *words: str) -> Run:
        """Deploys the foundation of an inventory."""
        return self.operator.pyinfra(*words, inventory=inventory, verb=VERB)

    def says(self, command: str) -> list[str]:
        """Returns output lines of a command on the machine."""
        return self.machine.run(command).stdout.splitlines()


@pytest.fixture(scope="module")
def cut() -> Iterator[Cut]:
    """Yields a bare machine after the first run; removes it before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    home = PLACES.root / "home"
    operator = Operator(PLACES.number, PLACES.root / "operator.log", home)
    machines.down(PLACES)
    home.mkdir(parents=True, exist_ok=True)
    try:
        (machine,) = machines.up(["d13m"], "13", places=PLACES)
        assert operator.python("-m", "rehearsal.services", "up").returncode == 0
        dry = operator.pyinfra("--dry", inventory=CUT, verb=VERB)
        yield Cut(machine, operator, dry, operator.pyinfra(inventory=CUT, verb=VERB))
    finally:
        machines.down(PLACES)
        operator.python("-m", "rehearsal.services", "down")


def test_the_gpu_is_cut_as_planned(cut: Cut) -> None:
    """A single run installs the driver, cuts the GPU and proves the instances, on a machine without a driver."""
    assert (cut.first.code, cut.says(DEVICES)) == (0, HALVES), cut.first.output[-3000:]


def test_dry_foresaw_the_cut(cut: Cut) -> None:
    """The dry run on the bare machine announces the cut."""
    assert "MIG | Cut the GPUs" in cut.dry.announced.values()


def test_cdi_offers_instances_and_no_whole_gpu(cut: Cut) -> None:
    """CDI has the names that the plan gives its servers."""
    assert cut.says(NAMES) == ["nvidia.com/gpu=0:0", "nvidia.com/gpu=0:1"]


def test_a_container_with_an_instance_sees_that_one_alone(cut: Cut) -> None:
    """The test repeats the deploy's own check, which without whole GPUs names the existing instances."""
    prove = "/usr/local/lib/enginehouse/prove-gpu-container 1"
    assert cut.machine.run(f"{prove} nvidia.com/gpu=0:0 nvidia.com/gpu=0:1").returncode == 0
    assert "sees 2 of 0 MIG instances" in cut.machine.run(f"{prove} 2>&1 || true").stdout


def test_a_second_run_changes_nothing(cut: Cut) -> None:
    """A dry run announces nothing either."""
    announced = cut.run(CUT, "--dry").announced
    assert (announced, cut.run(CUT).changed) == ({}, {})


def test_a_boot_cuts_again_before_docker_and_cdi(cut: Cut) -> None:
    """Instances do not outlive a reboot; the next run changes nothing and resumes interrupted downloads."""
    cut.machine.reboot()
    assert cut.says("systemctl is-system-running --wait; " + DEVICES) == ["running", *HALVES]
    assert cut.says(NAMES) == ["nvidia.com/gpu=0:0", "nvidia.com/gpu=0:1"]
    changed = cut.run(CUT).changed.values()
    assert [name for name in changed if not name.startswith(("Registry | Start", "Model store | Start"))] == []


def test_instances_in_use_are_named_and_kept(cut: Cut) -> None:
    """The plan wants the whole GPU; a process has an instance open."""
    cut.machine.run(HOLD)
    run = cut.run(WHOLE)
    assert (run.code, cut.says(DEVICES)) == (1, HALVES)
    assert "the MIG instances have to change, and another program uses these GPUs" in run.output
    assert "used by  sleep (" in run.output


def test_an_unused_gpu_becomes_whole(cut: Cut) -> None:
    """The mode is off, the unit is removed, and CDI names the card again; the run after that changes nothing."""
    cut.machine.run("systemctl stop notebook")
    run = cut.run(WHOLE)
    assert (run.code, cut.says(DEVICES), cut.says(NAMES)) == (0, [], ["nvidia.com/gpu=0"]), run.output[-3000:]
    assert cut.says(f"ls {LEFT} 2>/dev/null || true") == []
    assert cut.run(WHOLE).changed == {}
