"""A machine that serves, and an operator who deploys to it during faults; all fault tests share it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deploy.doctor.report import Report
from deploy.io.doctor import examined
from rehearsal import machines, services
from rehearsal.faults import fault
from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from rehearsal.pyinfra_run import Run, pyinfra
from tests.faults.question import found_on

NUMBER = int(os.environ.get("ENGINEHOUSE_FAULTS_NUMBER", "7"))
"""Rehearsal number; another one for development while all tests run."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
NAME, SERVED = "fault", "faults-served"
INVENTORY = "tests/faults/inventories/plain.py"
MARK = "touch /root/mark; sync; sleep 0.1"
# The harness logs in and inspects, and Debian runs timers at midnight, also when a fault moves the clock past it.
# Neither writes for the deploy.
WRITTEN = (
    "find / /var/lib/enginehouse -xdev"
    r" \( -path /var/log -o -path /var/lib/systemd -o -path /tmp -o -path /var/tmp"
    r" -o -path /var/lib/enginehouse/metrics -o -path '*/servers/*/watch.json'"
    r" -o -path /var/backups -o -path /var/lib/apt/daily_lock -o -path /var/lib/enginehouse/cache \) -prune"
    " -o -newer /root/mark ! -type d -print 2>/dev/null; true"
)
SERVES = (
    *("/var/lib/enginehouse/servers/", "/var/lib/enginehouse/releases/", "/etc/docker/"),
    *("/etc/systemd/system/triton@", "/run/enginehouse/triton-"),
)
NOTHING_SERVING = "state   no serving program was changed"
QUESTION = {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["some text"]}]}
SERVER = "/var/lib/enginehouse/servers/main"
PAST = {"unit-restarted", "errors-logged", "swap-refused", "xid-last-boot", "watchdog-restarted", "cause-past"}
PAST |= {
    "cause-request",
    "service-other",
    "service-pool",
    "service-apt",
    "service-apt-source",
    "service-apt-lock",
    "network-link",
}
"""Findings that outlive their cause, and so may tell of a test before this one."""
REPACKAGED = {"hole-known"}
"""The machine's Docker is Debian's own, repackaged under upstream's numbers: older than those without known holes."""


@dataclass
class Polls:
    """The failed answers of a client that asks repeatedly; `first` and `last` are seconds since its start."""

    requests: int = 0
    missed: list[float] = field(default_factory=list)


@dataclass
class Scene:
    """The machine and the actions on it."""

    machine: Machine

    def deploy(
        self,
        *words: str,
        inventory: str = INVENTORY,
        fault: Fault | None = None,
        at: str = "",
        strike: Callable[[], object] | None = None,
    ) -> Run:
        """Runs a deploy like an operator; a fault strikes at its own moment, any other `strike` at the step `at`."""
        if fault:
            at, strike = fault.moment, lambda: fault.strike(self.machine)
        run = pyinfra(inventory, "deploy.py", "-y", *words, print_steps=False, at=at, strike=strike)
        self._note(f"{inventory} {' '.join(words)} {at}", run.output, run.code)
        return run

    @contextlib.contextmanager
    def polled(self) -> Iterator[Polls]:
        """Runs a client that asks the machine repeatedly during the block."""
        polls, ended = Polls(), threading.Event()

        def ask_on() -> None:
            began = time.monotonic()
            while not ended.is_set():
                polls.requests += 1
                if not answers(self.machine):
                    polls.missed.append(round(time.monotonic() - began, 1))
                ended.wait(0.2)

        client = threading.Thread(target=ask_on)
        client.start()
        try:
            yield polls
        finally:
            ended.set()
            client.join()

    def mark(self) -> None:
        """Starts a new period for `written`."""
        self.machine.run(MARK)

    def written(self) -> list[str]:
        """Returns the machine's files that are newer than the mark."""
        return self.machine.run(WRITTEN).stdout.splitlines()

    def touched(self) -> list[str]:
        """Returns written files that belong to the serving release."""
        return [path for path in self.written() if path.startswith(SERVES)]

    def current(self) -> str:
        """Returns the current release."""
        return self.machine.run(f"basename $(readlink {SERVER}/current)", check=False).stdout.strip()

    def says(self, command: str) -> str:
        """Returns the output of a command on the machine, even if the command fails."""
        return self.machine.run(command, check=False).stdout.strip()

    def diagnosed(
        self, inventory: str = INVENTORY, drift: bool = False, past: bool = False, typed: bool = False
    ) -> set[str]:
        """Returns the ids of the doctor's current findings, including `unasked` if it gets no answer.

        `drift` also checks the next deploy; `past` includes findings about past events. `typed` runs the operator's
        command over SSH, and so do `drift` and another inventory.
        """
        if drift or typed or inventory != INVENTORY:
            report = examined(inventory, limit=(self.machine.name,), with_drift=drift)
        else:
            report = Report({self.machine.name: found_on(self.machine, inventory)})
        self._note(f"enginehouse doctor {inventory}", f"{report}\n", report.exit_code)
        finding_ids = {finding.id for listed in report.findings.values() for finding in listed} - REPACKAGED
        return (finding_ids if past else finding_ids - PAST) | ({"unasked"} if report.unasked else set())

    def _note(self, typed: str, output: str, code: int) -> None:
        """Appends the typed command, its output and its exit code to operator.log."""
        with (PLACES.root / "operator.log").open("a") as log:
            log.write(f"$ {typed}\n{output}exit {code}\n\n")

    def ends_well(self) -> list[object]:
        """Runs twice; returns both exit codes, whether the second run changed nothing, and whether the host serves."""
        mended = self.deploy()
        if mended.code:
            return [mended.code, mended.output[-3000:]]
        again = self.deploy()
        outcome = "silent" if again.is_silent else again.output[-3000:]
        return [mended.code, outcome, until(lambda: answers(self.machine), 60)]


WELL = [0, "silent", True]
"""Result of `ends_well` on a host in order."""


def answers(machine: Machine) -> bool:
    """Returns True if a client gets a vector from the machine."""
    place = f"http://{machine.address}:8000/v2/models/minilm/infer"
    try:
        with urllib.request.urlopen(place, json.dumps(QUESTION).encode(), timeout=10) as answer:
            return len(json.load(answer)["outputs"][0]["data"]) == 384
    except (OSError, ValueError):
        return False


def until(is_so: Callable[[], bool], seconds: float, every: float = 0.3) -> bool:
    """Returns True as soon as the condition holds; False after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(every)
    return False


def error_lines(run: Run) -> list[str]:
    """Returns the run's lines about the machine without pyinfra's framing, blank lines and paths of this computer."""
    lines = (re.sub(r"^\s*\[[a-z0-9]+\] ?", "", line) for line in run.output.splitlines() if f"[{NAME}]" in line)
    return [line.rstrip() for line in lines]


def fresh(snapshot: str | None = None) -> Machine:
    """Returns the machine recreated, bare or from the snapshot, with its services running."""
    with contextlib.suppress(Exception):
        machines.named(NAME, PLACES).destroy()
    (machine,) = machines.up([NAME], places=PLACES, snapshot=snapshot)
    services.services_up()
    return machine


def healthy(machine: Machine) -> bool:
    """Returns True if the machine runs, serves, and has no trace of a fault."""
    return machine.state == "running" and answers(machine)


def named(name: str) -> Fault:
    """Returns the fault of that name, as the command line does."""
    return fault(name)
