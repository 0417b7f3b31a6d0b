"""Twenty random rollouts through pyinfra, on fake hosts, act as the state machine alone decides."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from deploy.rollout.run import Run, Stop, TakeBack
from deploy.spec import Rollout
from tests.roles.rollout.fleet import FakeFleet, FakeServing

FINDINGS = ("not ready", "slower", "question failed")


def drawn(seed: int) -> tuple[FakeFleet, random.Random]:
    """A fleet of 4 to 14 hosts in one to three pools, where some hosts fail at some step."""
    draw = random.Random(seed)
    chosen = Rollout(
        canary_hosts=draw.randint(0, 2),
        wave_percent=draw.choice([25, 50, 100]),
        max_unavailable=draw.choice([2, 3, 4]),
        may_be_lost=draw.choice([0, 0, 1]),
        slower_percent=50,
        on_failure=draw.choice(["stop", "host", "wave", "all"]),
    )
    pools = draw.sample(["", "chat", "rank"], draw.randint(1, 3))
    fleet = FakeFleet.of({f"h{number:02}": draw.choice(pools) for number in range(draw.randint(4, 14))}, chosen)
    for host in fleet.hosts.values():
        if draw.random() < 0.12:
            host.fails = tuple(draw.sample(["stage", "swap", "swap", "back", *FINDINGS, *FINDINGS], 1))
    return fleet, draw


class Alone:
    """The state machine alone, over the same hosts with the same scripts, in the order of pyinfra's operations."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.plan, self.log = fleet.plan, list[tuple[str, str]]()
        self.hosts = {f"@fake/{n}": FakeServing(h.release, h.active, fails=h.fails) for n, h in fleet.hosts.items()}
        self.machine = Run(fleet.plan.waves, fleet.plan.pools, fleet.plan.rollout)

    def play(self, killed_before: int) -> None:
        """Runs pyinfra up to that operation."""
        for number, _ in enumerate(self._operations()):
            if number + 1 == killed_before or (self.machine.is_going_back and self.is_over):
                return

    @property
    def is_over(self) -> bool:
        """True if the state machine stops."""
        return isinstance(self.machine.decide(), Stop) and self._judged

    def _operations(self) -> Iterator[None]:
        """A yield for each operation of pyinfra: the run begins with the first, and the last ends the last wave."""
        run, self._judged = self.machine, False
        yield  # Gate | Every host matches the plan
        staged = [(name, "lost" if "stage" in host.fails else "staged") for name, host in self.hosts.items()]
        yield  # Stage
        for name, event in staged:
            run.record(event, name)
        self._judged = True
        yield  # Gate | Every host has image, weights and engines
        for number, wave in enumerate(run.waves):
            self._judged = False
            self._swap(wave)
            yield
            self._ask(wave)
            yield
            how = self.plan.rollout.on_failure
            for earlier in {"stop": (), "all": run.waves[number::-1]}.get(how, (wave,)):
                self._take_back(earlier)
                yield
            self._judged = True
            yield  # Gate | Wave …

    def _swap(self, wave: tuple[str, ...]) -> None:
        self.acted = [n for n in wave if self.machine.states[n] != "lost" and self.hosts[n].release != "new"]
        for name in self.acted:
            self.machine.record("drained", name)
        for name in list(self.acted):
            self.log.append(("swap", name))
            if "swap" in self.hosts[name].fails:
                self.machine.record("lost", name)
                self.acted.remove(name)
            else:
                self.hosts[name].release = "new"

    def _ask(self, wave: tuple[str, ...]) -> None:
        for name in wave:
            if self.machine.states[name] == "lost":
                continue
            findings = [finding for finding in self.hosts[name].fails if finding in FINDINGS and name in self.acted]
            for event in (
                *(("swapped", "proven", "admitted") if name in self.acted else ()),
                *(findings or ["passed"]),
            ):
                self.machine.record(event, name)

    def _take_back(self, wave: tuple[str, ...]) -> None:
        decision = self.machine.decide()
        group = [name for name in decision.hosts if name in wave] if isinstance(decision, TakeBack) else []
        for name in group:
            self.machine.record("drained", name)
        for name in group:
            self.log.append(("back", name))
            fails = "back" in self.hosts[name].fails
            self.hosts[name].release = "new" if fails else "old"
            self.machine.record("lost" if fails else "put back", name)


@pytest.mark.parametrize("seed", range(20))
def test_pyinfra_follows_the_state_machines_decisions(seed: int) -> None:
    """Compares swapped and rolled-back hosts by waves, and final releases; half of the runs are killed and repeated."""
    fleet, draw = drawn(seed)
    for killed_before in (draw.choice([-1, draw.randint(1, 12)]), -1):
        alone = Alone(fleet)
        ran = fleet.run(killed_before=killed_before)
        alone.play(killed_before)
        assert steps(fleet, fleet.log) == steps(fleet, alone.log)
        assert {name: host.release for name, host in fleet.hosts.items()} == {
            name.removeprefix("@fake/"): host.release for name, host in alone.hosts.items()
        }
        if ran:
            assert (ran.stopped != "") == isinstance(alone.machine.decide(), Stop)
            assert lost_hosts(ran.log) == (alone.machine.end().lost if ran.stopped else ())
        for host in fleet.hosts.values():  # repaired, and run again
            host.fails, host.active = (), "active"


def steps(fleet: FakeFleet, log: list[tuple[str, str]]) -> list[tuple[str, int, tuple[str, ...]]]:
    """The log by step and wave, with the hosts of each by name: within a step pyinfra acts on all hosts at once."""
    wave_of = {name: number for number, wave in enumerate(fleet.plan.waves) for name in wave}
    grouped: list[tuple[str, int, list[str]]] = []
    for verb, name in log:
        if not grouped or grouped[-1][:2] != (verb, wave_of[name]):
            grouped.append((verb, wave_of[name], []))
        grouped[-1][2].append(name)
    return [(verb, wave, tuple(sorted(names))) for verb, wave, names in grouped]


def lost_hosts(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lost hosts in a gate's message."""
    named = [line.split("  lost", 1)[1] for line in lines if "  lost " in line]
    return tuple(named[-1].strip().split(", ")) if named else ()
