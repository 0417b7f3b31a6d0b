"""The operator at the control machine, who runs `pyinfra` like a person; keeps its whole output."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal import machines, requirements
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places

RUN_SECONDS = 900
Change = tuple[str, str]
"""An operation (pyinfra's hash of where it stands in the deploy, the same in every run) and a host."""


@dataclass(frozen=True)
class Run:
    """A run of pyinfra: its exit code, its whole output, its results and plan as JSON, its wall time."""

    code: int
    output: str
    plan: list[dict[str, Any]]
    results: dict[str, Any]
    seconds: float

    @property
    def announced(self) -> dict[Change, str]:
        """Returns changes that `--dry` announces: (operation, host) to the operation's name."""
        kinds = ("hosts_with_change", "hosts_with_conditional_change")
        return {(op["op_hash"], host): op["name"] for op in self.plan for kind in kinds for host in op[kind]}

    @property
    def changed(self) -> dict[Change, str]:
        """Returns changes that the run made: (operation, host) to the operation's name."""
        return {(op["op_hash"], host): op["name"] for op in self.operations for host in op["success"]}

    @property
    def operations(self) -> list[dict[str, Any]]:
        """Returns every operation of the run; none if it was refused before the first."""
        return list(self.results.get("operations", ()))

    def told_of(self, verb: str) -> list[str]:
        """Returns hosts on which the operation with this beginning changed something."""
        return sorted(host for (_, host), name in self.changed.items() if name.startswith(verb))


@dataclass
class Operator:
    """Runs programs of the repository against one rehearsal; `heard` has the output of all runs, which is also in
    `log`.

    pyinfra runs with a separate `home`, so that no earlier run's cache makes a run succeed.
    """

    number: int
    log: Path
    home: Path
    heard: list[str] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment besides this process's."""

    @classmethod
    def fresh(cls, places: Places) -> Operator:
        """Returns an operator with an empty home and without a log, both in the state directory."""
        operator = cls(places.number, places.root / "operator.log", places.root / "home")
        shutil.rmtree(operator.home, ignore_errors=True)
        operator.home.mkdir(parents=True)
        operator.log.unlink(missing_ok=True)
        return operator

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, with the rehearsal's number."""
        return os.environ | {**self.variables, "ENGINEHOUSE_REHEARSAL_NUMBER": str(self.number)}

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `python WORDS` in the repository; never raises."""
        return self._run([sys.executable, *words], self.environment)

    def pyinfra(self, *words: str, inventory: str = "inventories/rehearsal.py", verb: str = "deploy.py") -> Run:
        """Runs `pyinfra INVENTORY VERB WORDS --json` and answers yes, unless the words include `--dry`."""
        program = str(Path(sys.executable).with_name("pyinfra"))
        began = time.monotonic()
        typed = [program, inventory, verb, *words, "--json", *(() if "--dry" in words else ("-y",))]
        ended = self._run(typed, self.environment | {"HOME": str(self.home)})
        printed = json.loads(ended.stdout) if ended.stdout.startswith("{") else {}
        output = ended.stdout + ended.stderr
        return Run(
            ended.returncode, output, printed.get("plan", []), printed.get("results") or {}, time.monotonic() - began
        )

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            timeout=RUN_SECONDS,
            check=False,
            capture_output=True,
            text=True,
        )
        self.heard += [ended.stdout, ended.stderr]
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{ended.stdout}{ended.stderr}exit {ended.returncode}\n\n")
        return ended


@contextlib.contextmanager
def fresh_machines(places: Places, names: Sequence[str], release: str) -> Iterator[tuple[Operator, list[Machine]]]:
    """New machines with the rehearsal's services, and their operator; skips if requirements are missing.

    Machines and services of an earlier run are removed before, and these afterwards.
    """
    if lacking := [*requirements.missing(places), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    machines.down(places)
    operator = Operator.fresh(places)
    try:
        made = machines.up(list(names), release, places=places)
        assert operator.python("-m", "rehearsal.services", "up").returncode == 0
        yield operator, made
    finally:
        machines.down(places)
        operator.python("-m", "rehearsal.services", "down")
