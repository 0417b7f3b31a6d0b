"""The doctor's own command and rules, for tests that run it often: a second each, without a pyinfra process.

A separate process writes the command and the plan's part of the rules once, because pyinfra replaces the sockets of
every process that imports it. `python -m tests.faults.question INVENTORY HOST` writes both.
"""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

from deploy.doctor.examine import findings_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings
from deploy.doctor.wanted import Wanted, wanted_of
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY

Question = tuple[str, tuple[str, ...], Wanted]
"""The doctor's command, the names of its checks, and the state that the host's plan wants."""


def found_on(machine: Machine, inventory: str) -> tuple[Finding, ...]:
    """Returns the findings on the machine, asked as root without SSH."""
    command, names, wanted = question_of(inventory, machine.name, machine.address)
    began = time.time()
    readings = Readings.parse(machine.run(command).stdout.splitlines()).expecting(names)
    now = {"today": datetime.now(UTC).date(), "before": began, "after": time.time()}
    return findings_of(readings, replace(wanted, **now))


@functools.cache
def question_of(inventory: str, host: str, address: str) -> Question:
    """Returns the question to that host of an inventory without other inputs; `address` is its address file."""
    words = [sys.executable, "-m", "tests.faults.question", inventory, host]
    made = subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()[-3000:]
    question: Question = pickle.loads(made.stdout)
    return question


def _question(inventory: str, host: str) -> Question:
    import pyinfra_cli  # noqa: F401  # isort: skip  # first: it patches the standard library

    from deploy.io.inventory import load_inventory, planned
    from roles._pyinfra.settings import known_settings
    from roles.doctor.questions import About, names_of, script
    from roles.triton.defaults import Defaults
    from roles.triton.release import release_of

    mine = planned(load_inventory(inventory, {}), None, known_settings()).for_host(host)
    releases = {server.name: release_of(server, Defaults(), mine.drain_seconds).id for server in mine.servers}
    about = About.of(mine)
    return script(about), names_of(about), wanted_of(mine, releases, datetime.now(UTC).date())


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(_question(*sys.argv[1:])))
