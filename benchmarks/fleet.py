"""The machines of a rollout: serving hosts, forked from a deployed one, and balancers without a GPU.

They run in a separate rehearsal number. The first deploy takes two minutes, so its machine is kept as a snapshot; forks
of it have their own names, addresses and keys, and a plain deploy configures them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from rehearsal import machines, requirements, services
from rehearsal.hardware import NO_GPU
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra

NUMBER = int(os.environ.get("ENGINEHOUSE_ROLLOUT_NUMBER", "3"))
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "benchmarks/inventories/fleet.py"
DEBIAN = "12"
"""Debian release of the serving hosts."""


@contextlib.contextmanager
def up(hosts: int, balancers: int, debian: str, keep: bool = False) -> Iterator[tuple[list[Machine], list[Machine]]]:
    """Yields a fleet: so many serving hosts, behind so many balancers with Debian `debian`. At the end all are removed
    unless kept.

    Raises `RehearsalRefused` if something is missing or the deploy ends with an error.
    """
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        raise RehearsalRefused(requirements.explain(lacking))
    down()
    try:
        if not _snapshot().exists():
            _keep_one_that_serves()
        edge = machines.up(_names("e", balancers), debian, NO_GPU, PLACES) if balancers else []
        serving = machines.up(_names("h", hosts), places=PLACES, snapshot=_snapshot().name)
        services.services_up()
        _deployed()
        yield serving, edge
    finally:
        if not keep:
            down()


def deploy(inventory: str = INVENTORY, heard: Callable[[str], None] | None = None) -> Run:
    """Runs an operator's deploy and adds its output to `operator.log`. `heard` gets each line of the output."""
    run = pyinfra(inventory, "deploy.py", "-y", print_steps=False, heard=heard)
    chosen = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("ROLLOUT_")]
    with (PLACES.root / "operator.log").open("a") as log:
        log.write(f"$ {' '.join(chosen)} pyinfra {inventory} deploy.py -y\n{run.output}exit {run.code}\n\n")
    return run


def down(forget: bool = False) -> None:
    """Removes every machine and service of the fleet; with `forget` also the snapshot."""
    os.environ["ENGINEHOUSE_REHEARSAL_NUMBER"] = str(NUMBER)  # services read the number only from the environment
    machines.down(PLACES)
    services.services_down()
    if forget:
        shutil.rmtree(_snapshot(), ignore_errors=True)


def _keep_one_that_serves() -> None:
    (machine,) = machines.up(["h1"], DEBIAN, places=PLACES)
    services.services_up()
    _deployed()
    machine.stop()
    machines.snapshot(machine, _snapshot().name)
    machines.down(PLACES)


def _deployed() -> None:
    run = deploy()
    if run.code:
        raise RehearsalRefused(f"the deploy ended with {run.code}\n{run.output[-4000:]}")


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _snapshot() -> Path:
    return PLACES.snapshots / f"fleet-{DEBIAN}"
