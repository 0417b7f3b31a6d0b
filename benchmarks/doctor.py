"""Measures a doctor's question: seconds and round trips for one host and for many, CPU on a serving host.

    python -m benchmarks.doctor                          one machine, eight, and 32 names of those eight
    python -m benchmarks.doctor --names 1 --machines 1   one alone
    python -m benchmarks.doctor --keep                   the machines stay

`pyinfra … doctor.py` on machines with real sshd and systemd: the first one serves, with stand-ins for GPU and driver;
the others are bare Debian. Every name is a separate host to pyinfra, with its own connection and plan. The peer in turn
with it is plain OpenSSH: `ssh NAME true`, all names at once. CPU is that of the whole serving machine, minus its idle
use in that time. Prints one JSON line last; `ratio` is seconds of the doctor for a second of the peer, at the largest
number of names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.converge import INVENTORY, MACHINE, name_them
from rehearsal import cgroups, machines, requirements, services
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import pyinfra

NAMES = (1, 8, 32)
MACHINES = 8
LONGEST_SECONDS = 120
IDLE_SECONDS = 20
COUNT = """
import sys, pyinfra_cli
from deploy.io.inventory import load_plan
from roles.doctor.questions import About, names_of
print(len(names_of(About.of(load_plan(sys.argv[1]).slices[0]))))
"""
LIMIT_MILLISECONDS = 10
"""Milliseconds of a core for each question to a host."""


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if every name answered."""
    options = parser().parse_args(words)
    try:
        if lacking := [*requirements.missing(Places.here()), *requirements.missing_packages()]:
            raise RehearsalRefused(requirements.explain(lacking))
        serving = _up(options.machines, max(options.names))
        used = Used(serving)
        idle = used.idle(options.idle)
        runs = [measured(names, options.rounds, used, idle) for names in options.names]
        result = summary(runs, idle, options.machines, asked_of_a_host())
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            machines.down()
            services.services_down()
    print(json.dumps(result), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.doctor", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--machines", type=int, default=MACHINES, help="one of them serves")
    made.add_argument(
        "--names", type=int, nargs="+", default=NAMES, help="asked at once; the first machine is the first"
    )
    made.add_argument("--rounds", type=int, default=5, help="of both ways in turn, after one that warms up")
    made.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds of the serving machine by itself")
    made.add_argument("--keep", action="store_true", help="leave the machines running at the end")
    return made


def _up(count: int, names: int) -> Machine:
    """Starts `count` machines, one serving and the others bare, with `names` host names; returns the serving one."""
    (serving,) = machines.up([MACHINE])
    services.prepare()
    services.services_up()
    name_them([serving], 1)
    if (run := pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)).code:
        raise RehearsalRefused(f"the deploy ended with {run.code}\n{run.output[-4000:]}")
    bare = machines.up([f"e{number}" for number in range(1, count)]) if count > 1 else []
    name_them([serving, *bare], names)
    return serving


class Used:
    """CPU seconds of all processes of a machine since its start, its services and logins included."""

    def __init__(self, machine: Machine) -> None:
        groups = cgroups.of_machine(machine.places.number, machine.name)
        files = [group / "cpu.stat" for group in groups if (group / "cpu.stat").exists()]
        if not files:
            raise RehearsalRefused("this computer counts no CPU by control group: version 2 of them is not mounted")
        self._file: Path = files[0]

    def seconds(self) -> float:
        """Returns seconds from the start until now."""
        return int(self._file.read_text().split()[1]) / 1e6

    def idle(self, seconds: float) -> float:
        """Returns CPU seconds a second that the idle machine uses."""
        time.sleep(2)  # lets the remaining work of the deploy end
        before, began = self.seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.seconds() - before) / (time.monotonic() - began)

    def by(self, question: Callable[[], Any], idle: float) -> tuple[float, float, Any]:
        """Returns wall seconds of the call, the machine's CPU seconds for the call, and the call's result."""
        before, began = self.seconds(), time.monotonic()
        returned = question()
        seconds = time.monotonic() - began
        return seconds, self.seconds() - before - idle * seconds, returned


def measured(names: int, rounds: int, used: Used, idle: float) -> dict[str, Any]:
    """Returns medians of a number of rounds with `names` names.

    Raises: RehearsalRefused if a name did not answer.
    """
    doctors, peers, answer = list[tuple[float, float, Any]](), list[tuple[float, float, Any]](), {}
    for number in range(rounds + 1):
        pair = used.by(lambda: doctor(names), idle), used.by(lambda: logins(names), idle)
        if number:
            doctors.append(pair[0])
            peers.append(pair[1])
        answer = pair[0][2]
    figures = {
        "names": names,
        "seconds": _median(doctors, 0),
        "commands_a_host": round(answer["commands"] / names, 2),
        "connections_a_host": round(answer["connections"] / names, 2),
        "control_cpu_seconds": answer["cpu_seconds"],
        "host_cpu_milliseconds": round(1000 * _median(doctors, 1)),
        "ssh_true_seconds": _median(peers, 0),
        "ssh_true_host_cpu_milliseconds": round(1000 * _median(peers, 1)),
    }
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def _median(timed: Sequence[tuple[float, float, Any]], place: int) -> float:
    return round(statistics.median(timing[place] for timing in timed), 3)


def doctor(names: int) -> dict[str, Any]:
    """Returns the counts of one call: commands and connections of all hosts, CPU seconds of the process itself."""
    argv = [sys.executable, "-m", "benchmarks.pyinfra_counters", INVENTORY, "doctor.py", "-y"]
    environment = {**os.environ, "CONVERGE_NAMES": str(names)}
    done = subprocess.run(
        argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    if done.returncode or f"{names} of {names} hosts asked" not in done.stdout:
        raise RehearsalRefused(f"not all of {names} names answered\n{(done.stdout + done.stderr)[-3000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def logins(names: int) -> None:
    """Logs in to every name by `ssh` at once, and runs `true`.

    Raises: RehearsalRefused if a login fails.
    """
    config = str(Places.here().ssh_config.parent / "names_config")
    words = ["ssh", "-F", config, "-o", "ControlMaster=no", "-o", "ControlPath=none"]
    begun = [subprocess.Popen([*words, f"n{number:03}", "true"], stdin=subprocess.DEVNULL) for number in range(names)]
    ended = [process.wait(LONGEST_SECONDS) for process in begun]
    if any(ended):
        raise RehearsalRefused(f"not all of {names} names let ssh in")


def summary(runs: Sequence[dict[str, Any]], idle: float, count: int, questions: int) -> dict[str, Any]:
    """Returns all runs, a question's cost to the serving host from the one-question run, and the ratio to the peer."""
    once = min(runs, key=lambda run: int(run["names"]))
    most = max(runs, key=lambda run: int(run["names"]))
    return {
        "benchmark": "doctor",
        "machines": count,
        "runs": list(runs),
        "questions_a_host": questions,
        "host_cpu_milliseconds_a_question": round(once["host_cpu_milliseconds"] / questions, 1),
        "host_cpu_milliseconds_a_question_without_login": round(
            (once["host_cpu_milliseconds"] - once["ssh_true_host_cpu_milliseconds"]) / questions, 1
        ),
        "limit_milliseconds_a_question": LIMIT_MILLISECONDS,
        "idle_cpu_percent": round(100 * idle, 1),
        "ratio": round(most["seconds"] / most["ssh_true_seconds"], 1),
    }


def asked_of_a_host() -> int:
    """Returns the number of questions in the one command that a host with a server gets."""
    done = subprocess.run([sys.executable, "-c", COUNT, INVENTORY], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise RehearsalRefused(done.stderr[-3000:])
    return int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
