"""Three machines of two GPU kinds, forked from a serving one, for `test_engines.py`.

A fork takes seconds, a first deploy a minute. They have their own number, and so their own bridge, services and state
directory beside other rehearsals.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tritonclient.grpc

from rehearsal import machines
from rehearsal.hardware import h100, l40s
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from rehearsal.services import Services
from tests.rehearsal.operator import Operator, Run
from tests.smoke import ask

PLACES = Places(REPOSITORY / ".rehearsal" / "number-5", 5)
INVENTORY = "tests/rehearsal/inventories/engine.py"
ENGINES = "/var/lib/enginehouse/engines/llama-tiny"
UNIT = "enginehouse-build@llama-tiny.service"
MODEL = "llama-tiny"
WAIT_SECONDS = 600


@dataclass
class Fleet:
    """The machines e1 and e2 with an H100 and e3 with an L40S, and their operator."""

    operator: Operator
    e1: Machine
    e2: Machine
    e3: Machine
    services: Services
    heard: dict[str, Run] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Machine, Machine, Machine]:
        """Returns the machines by name."""
        return self.e1, self.e2, self.e3

    def deploy(self, *words: str, **changes: str) -> Run:
        """Runs `pyinfra INVENTORY deploy.py WORDS` with the inventory changed by the environment."""
        with environment(changes):
            return self.operator.pyinfra(*words, inventory=INVENTORY)

    def plan(self, **changes: str) -> str:
        """Returns the output of `enginehouse plan`."""
        with environment(changes):
            return self.operator.python("-m", "deploy", "plan", INVENTORY).stdout

    def begin(self, *words: str, **changes: str) -> subprocess.Popen[bytes]:
        """Starts the fleet's deploy without waiting, in its own process group."""
        program = str(Path(sys.executable).with_name("pyinfra"))
        typed = [program, INVENTORY, "deploy.py", "-y", *words]
        surroundings = self.operator.environment | {"HOME": str(self.operator.home)} | changes
        with (PLACES.root / "begun.log").open("ab") as log:
            return subprocess.Popen(
                typed, cwd=REPOSITORY, env=surroundings, stdout=log, stderr=log, start_new_session=True
            )

    def checkpoint(self, name: str, **changes: object) -> None:
        """Copies the small Llama with a changed config.json into the rehearsal's state."""
        target = PLACES.root / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.services.checkpoints / MODEL, target)
        config = json.loads((target / "config.json").read_text())
        (target / "config.json").write_text(json.dumps(config | changes))


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables of the environment inside the `with` block."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def fleet() -> Iterator[Fleet]:
    """Yields the machines, serving an embedder and no LLM; removes them before and afterwards."""
    operator = Operator.fresh(PLACES)
    _throw_away(operator)
    try:
        (e1,) = machines.up(["e1"], "13", h100(), PLACES)
        started = operator.python("-m", "rehearsal.services", "up")
        assert started.returncode == 0, started.stderr
        first = operator.pyinfra(inventory="tests/rehearsal/inventories/no_engine.py")
        assert first.code == 0, first.output[-4000:]
        e1.stop()
        machines.snapshot(e1, "served")
        e1, e2 = machines.up(["e1", "e2"], places=PLACES, snapshot="served")
        (e3,) = machines.up(["e3"], hardware=l40s(), places=PLACES, snapshot="served")
        services = Services.of_json((PLACES.root / "services/services.json").read_text())
        yield Fleet(operator, e1, e2, e3, services)
    finally:
        _throw_away(operator)


def _throw_away(operator: Operator) -> None:
    machines.down(PLACES)
    operator.python("-m", "rehearsal.services", "down")
    for left in ("snapshots", "engines"):
        shutil.rmtree(PLACES.root / left, ignore_errors=True)


def until(is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Waits until the condition holds, at most `seconds`."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.2)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the control process and its children without warning."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def build_unit(machine: Machine) -> dict[str, str]:
    """Returns properties of the unit that builds the engine."""
    command = f"systemctl show -p ActiveState,StatusText,InvocationID {UNIT}"
    return dict(line.split("=", 1) for line in machine.run(command).stdout.splitlines())


def is_building(machine: Machine) -> bool:
    """Returns True if the compiler itself runs."""
    state = build_unit(machine)
    return state["ActiveState"] == "activating" and state["StatusText"].startswith("build ")


def builds(machine: Machine) -> int:
    """Returns the number of the unit's starts."""
    journal = machine.run(f"journalctl -q --boot=all -o cat -u {UNIT}; true").stdout
    return sum(line.startswith(f"Starting {UNIT}") for line in journal.splitlines())


def engines(machine: Machine) -> list[str]:
    """Returns names in the model's directory, hidden names included."""
    return machine.run(f"ls -A {ENGINES} 2>/dev/null; true").stdout.split()


def current(machine: Machine) -> str:
    """Returns the serving release."""
    return machine.run("basename $(readlink /var/lib/enginehouse/servers/main/current)").stdout.strip()


def serves(machine: Machine) -> bool:
    """Returns True if the server's unit is active, so that all its models have answered."""
    return machine.run("systemctl is-active triton@main.service", check=False).stdout == "active\n"


def answers(machine: Machine, prompt: str = "harbour lights ") -> bool:
    """Returns True if the LLM gives the stand-in's answer: words of the prompt in a circle from any start."""
    with tritonclient.grpc.InferenceServerClient(f"{machine.address}:8001") as client:
        text = "".join(ask.generate(client, MODEL, prompt, 4, path="engine"))
        return len(text) == 4 and text in prompt * 2


def restarted(machine: Machine) -> str:
    """Returns the journal of the server's unit after an attempted restart."""
    machine.run("systemctl restart triton@main.service", check=False, timeout=300)
    return machine.run("journalctl --sync; journalctl -q -o cat -n 40 -u triton@main.service").stdout
