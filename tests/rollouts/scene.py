"""Three hosts behind one balancer under a light load, an operator who deploys to them, and faults during a deploy."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import fleet, front
from benchmarks.client_protocols import Place
from benchmarks.open_loop import Load, Running, running
from benchmarks.outcomes import losses
from benchmarks.rollout import EMBEDDER, LLM, PATIENCE_SECONDS
from rehearsal.machine import Machine
from rehearsal.pyinfra_run import Run
from tests.faults.scene import until
from tests.rollouts.timeline import Event, Timeline

INVENTORY = "tests/rollouts/inventories/fleet.py"
HOSTS, POOL, ALLOWED = ("h1", "h2", "h3"), "pool0", 1
RATE = float(os.environ.get("ROLLOUT_RATE", "10"))
FRAME, COLOUR = re.compile(r"\s*\[([a-z0-9]+)\] ?(.*)"), re.compile(r"\x1b\[[0-9;]*m")
BACK_SECONDS, MOMENT_SECONDS = 600, 600
SERVED = "basename $(readlink /var/lib/enginehouse/servers/main/current); systemctl show -P InvocationID triton@main"


@dataclass
class Scene:
    """The fleet, the load on it, and the current run. `release` is the good release that the inventory names."""

    serving: Sequence[Machine]
    edge: Machine
    release: str = ""
    lines: list[str] = field(default_factory=list)
    """Lines of the current run."""
    timeline: Timeline | None = None
    second: Run | None = None
    """A second operator."""

    def host(self, name: str) -> Machine:
        """Returns the serving host of this name."""
        return next(machine for machine in self.serving if machine.name == name)

    def deploy(self, bad: str = "") -> Run:
        """Runs `pyinfra … deploy.py -y`; `bad` names the fault of its release."""
        os.environ |= {"ROLLOUT_CHANGES": self.release, "ROLLOUT_BAD": bad}
        return fleet.deploy(INVENTORY, self._heard)

    def served(self, name: str) -> list[str]:
        """Returns the release that a host serves, and the number of its server's start."""
        return self.host(name).run(SERVED).stdout.split()

    def seen(self, name: str) -> list[str]:
        """Returns the states in which the balancer has had a host, in order."""
        assert self.timeline
        return self.timeline.seen(name)

    def all_in(self, but: Sequence[str] = ()) -> bool:
        """Returns True if the balancer sends to every host."""
        assert self.timeline
        return all(self.timeline.now.get(name) == "UP" for name in HOSTS if name not in but)

    def _heard(self, line: str) -> None:
        self.lines.append(line)
        if self.timeline:
            self.timeline.heard(line)


Act = Callable[[Scene], object]
Moment = Callable[[Scene], bool]


@dataclass(frozen=True)
class Case:
    """A failure in a rollout, and its effect for the operator.

    `bad` names the fault of the tried release. `strike` happens once `when` holds, `first` before the load begins,
    `mended` before the plain re-run.
    """

    name: str
    says: tuple[str, ...]
    """Lines of the run's output."""
    untouched: tuple[str, ...]
    """Hosts whose servers run on, with the release they had."""
    code: int = 1
    bad: str = ""
    when: Moment = lambda scene: True
    strike: Act | None = None
    first: Act | None = None
    mended: Act | None = None
    away: tuple[str, ...] = ()
    """Hosts that do not come back by themselves."""
    may_lose: bool = False
    """True if the fault hits a program with open requests, so that some may be lost."""
    long_percent: float = 0
    """Percentage of streams that last longer than a drain, which then takes all of its time."""


def played(scene: Scene, case: Case, tell: Callable[[Event], None] = lambda event: None) -> dict[str, Any]:
    """Plays the case under load: the failed run, the hosts that returned without help, the plain re-run."""
    before = {name: scene.served(name) for name in HOSTS}
    if case.first:
        case.first(scene)
    scene.lines, scene.second = [], None
    if not case.bad:
        scene.release = "" if scene.release else "release"
    with _loaded(scene, case, tell) as load:
        assert until(lambda: scene.all_in(case.away), BACK_SECONDS), "not every host is in at first"
        with _striking(scene, case):
            run = scene.deploy(case.bad)
        back = until(lambda: scene.all_in(case.away), BACK_SECONDS)
        stayed = [name for name in case.untouched if name not in case.away and scene.served(name) == before[name]]
        assert scene.timeline
        scene.timeline.note(run="ended", code=run.code, said=gate_lines(run.output))
        if case.mended:
            case.mended(scene)
        if case.bad:
            scene.release = "" if scene.release else "release"
        again = scene.deploy()
        serves = until(scene.all_in, BACK_SECONDS)
        scene.timeline.note(run="ended", code=again.code)
        outcomes = load.end(2 * PATIENCE_SECONDS)
        least = scene.timeline.least_in()
    releases = {name: scene.served(name)[0] for name in HOSTS}
    lost = losses(outcomes, scene.timeline._began)
    return {
        "case": case.name,
        "code": run.code,
        "missing": [
            words for words in case.says if words not in run.output + (scene.second.output if scene.second else "")
        ],
        "touched": [name for name in case.untouched if name not in stayed],
        "back": back,
        "least_in": least,
        "again": again.code,
        "serves": serves and len(set(releases.values())) == 1 and releases["h1"] != before["h1"][0],
        "sent": len(outcomes),
        "lost": sum(lost["reasons"].values()),
        "seconds": [round(run.seconds), round(again.seconds)],
    } | lost


def gate_lines(output: str) -> list[str]:
    """Two lines of a host about a release that does not serve, and a gate's lines to the first host that it stopped,
    without pyinfra's own framing; empty if no gate stopped anybody."""
    framed = (FRAME.match(COLOUR.sub("", line)) for line in output.splitlines())
    lines = [(match[1], match[2].rstrip()) for match in framed if match]
    gate = next((number for number, (_, line) in enumerate(lines) if line.startswith("the gate failed")), None)
    if gate is None:
        return []
    verdict = next((number for number, (_, line) in enumerate(lines[:gate]) if " does not serve; " in line), gate)
    of_host = (line for name, line in lines[gate:] if name == lines[gate][0])
    lines_of_host = itertools.takewhile(lambda line: not line.startswith("Error"), of_host)
    return [*(f"{name}: {line}" for name, line in lines[verdict : min(verdict + 2, gate)]), *lines_of_host]


@contextlib.contextmanager
def _loaded(scene: Scene, case: Case, tell: Callable[[Event], None]) -> Iterator[Running]:
    http, grpc = front.ports(0)
    address = scene.edge.address
    load = Load(
        place=Place(f"{address}:{http}", f"{address}:{grpc}"),
        rate=RATE,
        embedder=EMBEDDER,
        llm=LLM,
        long_percent=case.long_percent,
        drain_seconds=front.DRAIN_SECONDS,
        patience_seconds=PATIENCE_SECONDS,
    )
    exporter = f"http://{address}:{front.METRICS_PORT}/metrics"
    with running(load) as sent, Timeline(exporter, POOL, sent.so_far, tell) as scene.timeline:
        yield sent


@contextlib.contextmanager
def _striking(scene: Scene, case: Case) -> Iterator[None]:
    """Strikes at the case's moment during the block."""
    ended, problems = threading.Event(), list[BaseException]()

    def strike() -> None:
        try:
            end = time.monotonic() + MOMENT_SECONDS
            while not case.when(scene):
                assert time.monotonic() < end and not ended.is_set(), "the moment of the strike never came"
                time.sleep(0.02)
            assert scene.timeline and case.strike
            scene.timeline.note(strike=case.name)
            case.strike(scene)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=strike) if case.strike else None
    if thread:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread:
            thread.join()
    if problems:
        raise problems[0]


def written(result: dict[str, Any], events: Sequence[Event]) -> None:
    """Writes the result as a line of the rehearsal's state, and its time line as a file."""
    with (fleet.PLACES.root / "rollouts.jsonl").open("a") as file:
        file.write(json.dumps(result) + "\n")
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (fleet.PLACES.root / f"rollout-{result['case']}.jsonl").write_text(lines)
