"""A rehearsal with a new machine for each moment; its operator's run is killed and repeated."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rehearsal import machines, nspawn, services
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra
from tests.faults.scene import answers, until
from tests.kills.moments import Killer, Moment, Timeline
from tests.kills.remains import differences, remains

NAME = "kill"
GOOD = ["silent", "serves", []]
"""Result of `ends` for a host that shows no trace of the kill."""


@dataclass
class Scene:
    """The rehearsal, the inventory, and the state after an uninterrupted run."""

    places: Places
    inventory: str
    timeline: Timeline
    whole: dict[str, str]

    @classmethod
    def of(cls, number: int, inventory: str) -> Scene:
        """Measures a full run and keeps its resulting state; returns the rehearsal ready for kills."""
        places = Places(REPOSITORY / ".rehearsal" / f"number-{number}", number)
        scene = cls(places, inventory, Timeline(), {})
        machine = scene.bare()
        services.services_up()  # they listen on the bridge, which exists from the first machine on
        run = scene.run(heard=scene.timeline.heard)
        assert run.code == 0, run.output[-4000:]
        assert scene.ends(machine)[:2] == GOOD[:2]
        scene.whole = remains(machine)
        return scene

    def bare(self) -> Machine:
        """Returns a machine in the provider's initial state, with an operator who has never deployed from here."""
        with contextlib.suppress(Exception):
            machines.named(NAME, self.places).destroy()
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        (machine,) = machines.up([NAME], places=self.places)
        return machine

    @property
    def home(self) -> Path:
        """Returns the operator's home, with the state that the control machine keeps between runs."""
        return self.places.root / "home"

    def run(self, heard: Callable[[str], None] | None = None, note: str = "") -> Run:
        """Runs a deploy like an operator; operator.log keeps its output."""
        run = pyinfra(self.inventory, "deploy.py", "-y", print_steps=False, heard=heard)
        with (self.places.root / "operator.log").open("a") as log:
            log.write(f"$ {self.inventory}\n{run.output}exit {run.code} after {run.seconds:.1f} s{note}\n\n")
        return run

    def killed(self, machine: Machine, moment: Moment) -> Run:
        """Runs a deploy whose control process is killed at the moment. Waits for the end of a reboot that it requested,
        since no deploy can reach the host meanwhile.
        """
        before = nspawn.leader_pid(machine.directory)
        run = self.run(Killer(self.places, moment).heard, f", killed {moment}")
        if reboots(machine):
            until(lambda: nspawn.leader_pid(machine.directory) not in (before, None), 60)
        machine.wait()
        return run

    def ends(self, machine: Machine) -> list[object]:
        """Returns the changes of another run, whether the host serves, and differences from an uninterrupted run."""
        again = self.run()
        changes = "silent" if again.is_silent else again.output[-3000:]
        serves = "serves" if until(lambda: answers(machine), 60) else "does not serve"
        return [changes, serves, differences(remains(machine), self.whole)]


def reboots(machine: Machine) -> bool:
    """Returns True if the host is about to shut down or is shutting down."""
    try:
        answer = machine.run("pgrep -f 'systemctl reboo[t]'; systemctl is-system-running", check=False)
    except RehearsalRefused:
        return False  # it is shut down already: whoever waits for it sees it boot
    return answer.stdout.split()[-1:] == ["stopping"] or len(answer.stdout.split()) > 1
