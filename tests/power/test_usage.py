"""The power is cut while two processes count requests: no request counts twice, and no request on the disk is lost.

The machine has its own kernel and disk cache, and Python, but no Docker, so that it boots quickly. 100,000 requests end
there, in two parts; the power is cut at the end of each, at a moment independent of the machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from rehearsal import forks, machines, requirements
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY
from tests.power.counting import AT_ONCE
from tests.power.ground import PLACES, QUIET, unpack

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-8")]

CUTS, PROCESSES, REQUESTS = 2, 2, 25_000
"""Requests of a process before the plug is pulled: 100,000 of all."""
NAME, BARE = "usage", "usage-bare"
HERE, FOLDER = "/opt/usage", "/var/lib/usage"
COUNT = f"cd {HERE} && exec python3 -B -m counting {FOLDER} "
REPORT = f"cd {HERE} && python3 -B -m gateway usage {FOLDER}"


@dataclass
class Process:
    """A process that counts on the machine, with its output before the power cut."""

    name: str
    begun: int = 0
    synced: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    end: Callable[[], None] = field(default=lambda: None)
    """Ends the connection, which does not notice that the power went."""

    def follow(self, machine: Machine) -> None:
        """Runs the counting program until the power cut."""
        words = ["ssh", "-F", str(machine.ssh_config), "-o", "ControlPath=none", machine.name]
        with subprocess.Popen([*words, f"sudo sh -c '{COUNT}{self.name}'"], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout
            self.end = run.kill
            for line in run.stdout:
                word, _, number = line.partition(" ")
                setattr(self, word, int(number))
                if self.begun >= REQUESTS:
                    self.reached.set()
        self.reached.set()


@dataclass(frozen=True)
class Cut:
    """The requests of each process of a cut: ended, on the disk by the process's output, and counted after the boot."""

    begun: dict[str, int]
    on_disk: dict[str, int]
    counted: dict[str, int]
    most_of_a_key: int
    before: dict[str, int]
    """Counted requests of the processes of earlier cuts, as they were before this one."""


@dataclass
class Counting:
    """The machine with the gateway's programs, and the cuts so far."""

    machine: Machine
    cuts: list[Cut] = field(default_factory=list)

    def cut(self, ordinal: int) -> Cut:
        """Runs two processes until each had its requests, cuts the power, and boots the machine."""
        before = self.counts()[0]
        processes = [Process(f"cut{ordinal}.{number}") for number in range(PROCESSES)]
        threads = [threading.Thread(target=process.follow, args=(self.machine,)) for process in processes]
        for thread in threads:
            thread.start()
        for process in processes:
            assert process.reached.wait(1200)
        self.machine.power_cycle()
        for process, thread in zip(processes, threads, strict=True):
            process.end()
            thread.join()
        counted, most = self.counts()
        of_these = {process.name: counted.get(process.name, 0) for process in processes}
        begun = {process.name: process.begun for process in processes}
        self.cuts.append(Cut(begun, {process.name: process.synced for process in processes}, of_these, most, before))
        return self.cuts[-1]

    def counts(self) -> tuple[dict[str, int], int]:
        """Returns counted requests by process, and the most of a key, from the operator's verb on the machine."""
        rows: list[dict[str, Any]] = json.loads(self.machine.run(f"mkdir -p {FOLDER}; {REPORT}").stdout)["rows"]
        sums: Counter[str] = Counter()
        for row in rows:
            sums[row["key"].rpartition("-")[0]] += row["requests"]
        return dict(sums), max((row["requests"] for row in rows), default=0)


@pytest.fixture(scope="module")
def counting() -> Iterator[Counting]:
    """Yields the machine with the gateway's own programs; writes the counts of all cuts beside it afterwards."""
    if lacking := [*requirements.missing(PLACES, "qemu"), *requirements.missing_packages(for_faults=True)]:
        pytest.skip(requirements.explain(lacking))
    if not (PLACES.snapshots / BARE).exists():
        forks.virtual_snapshot(PLACES.snapshots / BARE, "13", ("python3",))
    (machine,) = machines.up([NAME], "13", places=PLACES, kind="qemu", snapshot=BARE)
    try:
        files = {f"gateway/{path.name}": path.read_bytes() for path in (REPOSITORY / "files/gateway").glob("*.py")}
        files["counting.py"] = (REPOSITORY / "tests/power/counting.py").read_bytes()
        unpack(machine, HERE, files)
        machine.run(f"systemctl mask {QUIET}; systemctl disable rehearsal-hardware; mkdir {FOLDER}; sync")
        counting = Counting(machine)
        yield counting
        cuts = [asdict(cut) for cut in counting.cuts]
        (PLACES.root / "usage.json").write_text(json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", "cuts": cuts}))
    finally:
        machine.destroy()
        shutil.rmtree(PLACES.snapshots / BARE, ignore_errors=True)


@pytest.fixture(scope="module", params=range(1, CUTS + 1), ids=lambda ordinal: f"cut-{ordinal}")
def cut(counting: Counting, request: pytest.FixtureRequest) -> Cut:
    """Returns a power cut."""
    return counting.cut(request.param)


def test_no_request_is_counted_twice(cut: Cut) -> None:
    assert 0 < cut.most_of_a_key <= AT_ONCE


def test_requests_that_were_on_the_disk_outlive_the_power(cut: Cut) -> None:
    """Only lines of the last sync, and of the pause before it, are lost."""
    assert all(cut.counted[name] >= least > 0 for name, least in cut.on_disk.items())


def test_counts_of_earlier_boots_stay_as_they_were(cut: Cut, counting: Counting) -> None:
    now, _ = counting.counts()
    assert {name: now[name] for name in cut.before} == cut.before
