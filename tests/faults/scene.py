"""One machine that serves, and an operator who deploys to it while things go wrong; what every fault's test asks."""

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
"""Another one for whoever works on a test while all of them run."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
NAME, SERVED = "fault", "faults-served"
INVENTORY = "tests/faults/inventories/plain.py"
MARK = "touch /root/mark; sync; sleep 0.1"
# What logging in and looking around writes is not the deploy's, nor what Debian does at midnight (and at once when a
# fault moves the clock past one).
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
NOTHING_SERVING = "state   nothing that serves was touched"
QUESTION = {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["some text"]}]}
SERVER = "/var/lib/enginehouse/servers/main"
PAST = {"unit-restarted", "errors-logged", "swap-refused", "xid-last-boot", "watchdog-restarted", "cause-past"}
"""Findings that outlive their cause, and so may tell of a test before this one."""
REPACKAGED = {"hole-known"}
"""The machine's Docker is Debian's own, repackaged under upstream's numbers: older than those without known holes."""


@dataclass
class Polls:
    """Every answer a client missed while it asked again and again; `first` and `last` in seconds since it began."""

    asked: int = 0
    missed: list[float] = field(default_factory=list)


@dataclass
class Scene:
    """The machine and what is done to it."""

    one: Machine

    def deploy(
        self,
        *words: str,
        inventory: str = INVENTORY,
        fault: Fault | None = None,
        at: str = "",
        strike: Callable[[], object] | None = None,
    ) -> Run:
        """One run as a person types it; with a fault, struck at its moment, or with any `strike`, at the one named."""
        if fault:
            at, strike = fault.moment, lambda: fault.strike(self.one)
        run = pyinfra(inventory, "deploy.py", "-y", *words, tell=False, at=at, strike=strike)
        self._note(f"{inventory} {' '.join(words)} {at}", run.output, run.code)
        return run

    @contextlib.contextmanager
    def polled(self) -> Iterator[Polls]:
        """A client asks all the while."""
        polls, over = Polls(), threading.Event()

        def ask_on() -> None:
            began = time.monotonic()
            while not over.is_set():
                polls.asked += 1
                if not answers(self.one):
                    polls.missed.append(round(time.monotonic() - began, 1))
                over.wait(0.2)

        client = threading.Thread(target=ask_on)
        client.start()
        try:
            yield polls
        finally:
            over.set()
            client.join()

    def mark(self) -> None:
        """From here on `written` counts."""
        self.one.run(MARK)

    def written(self) -> list[str]:
        """Files of the machine that are newer than the mark."""
        return self.one.run(WRITTEN).stdout.splitlines()

    def touched(self) -> list[str]:
        """Those of them that what serves is made of."""
        return [path for path in self.written() if path.startswith(SERVES)]

    def current(self) -> str:
        """The release that is current."""
        return self.one.run(f"basename $(readlink {SERVER}/current)", check=False).stdout.strip()

    def says(self, command: str) -> str:
        """What a command prints on the machine, whether it ends well or not."""
        return self.one.run(command, check=False).stdout.strip()

    def diagnosed(
        self, inventory: str = INVENTORY, drift: bool = False, past: bool = False, typed: bool = False
    ) -> set[str]:
        """Ids of what the doctor finds now, with `unasked` where it gets no answer.

        With `drift` the next deploy is asked too; with `past` what only tells of the past counts. `typed`: as a person
        types it, over SSH, which `drift` and another inventory make so too.
        """
        if drift or typed or inventory != INVENTORY:
            report = examined(inventory, limit=(self.one.name,), with_drift=drift)
        else:
            report = Report({self.one.name: found_on(self.one, inventory)})
        self._note(f"enginehouse doctor {inventory}", f"{report}\n", report.exit_code)
        finding_ids = {finding.id for listed in report.findings.values() for finding in listed} - REPACKAGED
        return (finding_ids if past else finding_ids - PAST) | ({"unasked"} if report.unasked else set())

    def _note(self, typed: str, output: str, code: int) -> None:
        """What was typed and what came of it is in operator.log."""
        with (PLACES.root / "operator.log").open("a") as log:
            log.write(f"$ {typed}\n{output}exit {code}\n\n")

    def ends_well(self) -> list[object]:
        """After a plain run and another: exit codes, whether the second was silent, whether it serves."""
        mended = self.deploy()
        if mended.code:
            return [mended.code, mended.output[-3000:]]
        again = self.deploy()
        told = "silent" if again.is_silent else again.output[-3000:]
        return [mended.code, told, until(lambda: answers(self.one), 60)]


WELL = [0, "silent", True]
"""What `ends_well` says where everything is right again."""


def answers(one: Machine) -> bool:
    """Whether a client gets a vector from the machine."""
    place = f"http://{one.address}:8000/v2/models/minilm/infer"
    try:
        with urllib.request.urlopen(place, json.dumps(QUESTION).encode(), timeout=10) as answer:
            return len(json.load(answer)["outputs"][0]["data"]) == 384
    except (OSError, ValueError):
        return False


def until(is_so: Callable[[], bool], seconds: float, every: float = 0.3) -> bool:
    """True as soon as it is so; False where it is not after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(every)
    return False


def error_lines(run: Run) -> list[str]:
    """What the run said of the machine, without pyinfra's own framing, blank lines and paths of this computer."""
    said = (re.sub(r"^\s*\[[a-z0-9]+\] ?", "", line) for line in run.output.splitlines() if f"[{NAME}]" in line)
    return [line.rstrip() for line in said]


def fresh(snapshot: str | None = None) -> Machine:
    """The machine, made anew: bare, or as it was when the snapshot was taken; its services are up."""
    with contextlib.suppress(Exception):
        machines.named(NAME, PLACES).destroy()
    (one,) = machines.up([NAME], places=PLACES, snapshot=snapshot)
    services.services_up()
    return one


def healthy(one: Machine) -> bool:
    """Whether the machine runs, serves, and holds nothing of a fault."""
    return one.state == "running" and answers(one)


def named(name: str) -> Fault:
    """The fault, as the command line finds it."""
    return fault(name)
