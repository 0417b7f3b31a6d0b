"""Compares seconds and CPU of 29 unchanged operations in this project and ansible-core with its best settings.

Part of `benchmarks/converge.py`. The machines are bare Debian with Python, the same for both. Each program sets up half
of the machines, and then both must find all of them unchanged, which shows that the operations are equal. Ansible runs
with pipelining, a fork per machine, connections kept between runs, and no gathering, since no task reads a fact. Its
strategies `free`, which waits for no other machine, and `linear` both run; the faster one counts.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import machines, ssh
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import TOTAL
from roles._pyinfra import hold

INVENTORY, OURS = "benchmarks/inventories/machines.py", "benchmarks/side_by_side/as_role.py"
PLAYBOOK, CONFIG = "benchmarks/side_by_side/site.yml", "benchmarks/side_by_side/ansible.cfg"
OPERATIONS = 29
STRATEGIES = ("linear", "free")
BARE = "side-by-side"
PYTHON = "sudo apt-get -q update && sudo apt-get -qy install --no-install-recommends python3 python3-apt"
SETTINGS = f"sudo mkdir -p {hold.OURS}"
"""Settings of a deployed host, which records the end of a run, so that the next run asks only once."""
LONGEST_SECONDS = 600
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Timed:
    """An ended command: wall seconds, CPU seconds including awaited child processes, and output."""

    seconds: float
    cpu_seconds: float
    code: int
    output: str


def compared(count: int, rounds: int, peer: str) -> dict[str, Any]:
    """Runs both programs on `count` machines; returns medians of `rounds` runs in turn. Raises if a run has changes."""
    names = [machine.name for machine in bare_machines(count)]
    ours, theirs = ("ours", ""), ("ansible", "linear")
    run(*theirs, names[::2], peer, is_silent=False)
    if names[1::2]:
        run(*ours, names[1::2], peer, is_silent=False)
    runs: dict[str, list[Timed]] = {}
    for _ in range(rounds + 1):
        for way in (ours, *(("ansible", strategy) for strategy in STRATEGIES)):
            runs.setdefault(way[1] or way[0], []).append(run(*way, names, peer))
    # The first round fills the caches of both programs and opens Ansible's connections.
    return summary({way: timed[1:] for way, timed in runs.items()}, count, version(peer))


def bare_machines(count: int) -> list[Machine]:
    """Returns new machines with Debian and Python, forked from the first one."""
    places = Places.here()
    (first,) = machines.up(["a1"], places=places)
    if not (places.snapshots / BARE).exists():
        first.run(PYTHON)
        first.run(SETTINGS)
        first.stop()
        machines.snapshot(first, BARE)
    others = [f"a{number}" for number in range(2, count + 1)]
    return [*machines.up(["a1"], places=places), *(machines.up(others, places=places, snapshot=BARE) if others else [])]


def run(way: str, strategy: str, names: Sequence[str], peer: str, is_silent: bool = True) -> Timed:
    """Returns seconds, CPU and output of a run.

    Raises: RehearsalRefused if the run failed, or had changes although `is_silent` was requested.
    """
    if way == "ours":
        done = timed([sys.executable, "-m", "pyinfra", INVENTORY, OURS, "-y"], {"CONVERGE_MACHINES": " ".join(names)})
        total = TOTAL.search(done.output)
        silent = total is not None and total[1] == total[4]
    else:
        done = timed(playbook(peer, names, inventory_file(names, Places.here().root)), best(strategy, len(names)))
        silent = is_recap_silent(done.output, names)
    (Places.here().root / "converge.log").write_text(done.output)
    if done.code or (is_silent and not silent):
        raise RehearsalRefused(f"the run of {way} {strategy} was not silent\n{done.output[-3000:]}")
    print(f"{strategy or way}: {done.seconds:.1f} s, {done.cpu_seconds:.1f} s of CPU", file=sys.stderr, flush=True)
    return done


def timed(argv: Sequence[str], environment: Mapping[str, str]) -> Timed:
    """Runs the command in the repository with these additional variables."""
    began = time.monotonic()
    with subprocess.Popen(
        argv, cwd=REPOSITORY, env={**os.environ, **environment}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Timed(time.monotonic() - began, used.ru_utime + used.ru_stime, process.returncode, output)


def playbook(peer: str, names: Sequence[str], inventory: Path) -> list[str]:
    """Returns the command of ansible-core in the Python `peer`."""
    return [peer, "-m", "ansible", "playbook", "-i", str(inventory), "--forks", str(len(names)), PLAYBOOK]


def inventory_file(names: Sequence[str], folder: Path) -> Path:
    """Writes Ansible's inventory of these machines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "side_by_side.ini"
    path.write_text("\n".join(["[all]", *names, ""]))
    return path


def best(strategy: str, forks: int) -> dict[str, str]:
    """Returns Ansible's settings beside those of CONFIG: all that its documentation advises for speed."""
    places = Places.here()
    # Beside the sockets of the machines' own connections, which are closed together with the machines.
    control = ssh.control_directory(places) / "%n"
    kept = f"-F {places.ssh_config} -o ControlMaster=auto -o ControlPersist=600s -o ControlPath={control}"
    return {
        "ANSIBLE_CONFIG": CONFIG,
        "ANSIBLE_SSH_ARGS": kept,
        "ANSIBLE_STRATEGY": strategy,
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_HOME": str(places.root / "ansible"),
    }


def is_recap_silent(output: str, names: Sequence[str]) -> bool:
    """Returns True if the recap has every machine with all operations, all ok and unchanged."""
    counts_of_host = {name: tuple(map(int, counts)) for name, *counts in RECAP.findall(output)}
    return counts_of_host == dict.fromkeys(names, (OPERATIONS, 0, 0, 0))


def version(peer: str) -> str:
    """Returns the version that ansible-core reports."""
    argv = [peer, "-m", "ansible", "playbook", "--version"]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return answer.stdout.splitlines()[0]


def summary(runs: Mapping[str, Sequence[Timed]], count: int, peer: str) -> dict[str, Any]:
    """Returns medians of each program; `ratio` is Ansible's faster wall seconds over ours, `cpu_ratio` the ratio of
    CPU seconds."""
    runners = {
        way: {
            "seconds": round(statistics.median(run.seconds for run in done), 2),
            "cpu_seconds": round(statistics.median(run.cpu_seconds for run in done), 2),
            "runs": len(done),
        }
        for way, done in runs.items()
    }
    faster = min((runners[strategy] for strategy in STRATEGIES), key=lambda way: way["seconds"])
    return {
        "peer": peer,
        "machines": count,
        "operations": OPERATIONS,
        **runners,
        "ratio": round(faster["seconds"] / runners["ours"]["seconds"], 1),
        "cpu_ratio": round(faster["cpu_seconds"] / runners["ours"]["cpu_seconds"], 1),
    }
