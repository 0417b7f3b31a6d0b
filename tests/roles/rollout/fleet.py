"""A fleet of fake hosts for a rollout: each has a release, and a script of its failures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from pyinfra import host
from pyinfra.api import FactBase, StringCommand
from pyinfra.api import operations as pyinfra_operations
from pyinfra.operations import server

from deploy.planning.plan import Plan
from deploy.slices.host import Slice
from deploy.spec import Rollout
from roles import rollout
from roles._pyinfra.steps import CachedFact, Command, step
from tests.roles.fake import Answer, Ran, run
from tests.roles.plans import a_plan
from tests.roles.slices import a_slice


class Release(FactBase[str]):
    """The release that a fake host serves."""

    default = str

    def command(self) -> str:
        """The command that the fleet answers."""
        return "which release"

    def process(self, output: list[str]) -> str:
        return output[0] if output else ""


class Killed(Exception):
    """Raised by the fake pyinfra in place of an operation; stands for a kill of the control process."""


@dataclass
class FakeServing:
    """A host: its release, its state, and the steps at which it fails ("stage", "swap", "back", a finding)."""

    release: str = "old"
    active: str = "active"
    starts: int = 1
    fails: tuple[str, ...] = ()
    swap: dict[str, Any] = field(default_factory=dict)

    def answers(self, name: str, log: list[tuple[str, str]]) -> dict[Any, Answer]:
        """The script of its connector; `log` gets (step, host) of every drain."""

        def stage(_: str) -> Answer:
            return {"success": "stage" not in self.fails}

        def bring(command: str) -> Answer:
            verb, release = command.split()
            log.append((verb, f"@fake/{name}"))
            if verb in self.fails:
                return {"success": False}  # the host's own swap restored the earlier release
            self.swap = {"release": release, "from": self.release}
            self.swap |= {"answers": {"rank": 2.0 if "slower" in self.fails else 1.0}, "answers_before": {"rank": 1.0}}
            self.release, self.starts = release, self.starts + 1
            self.active = "failed" if "not ready" in self.fails and verb == "swap" else "active"
            return ""

        def tell(command: str) -> Answer:
            asks = "--ask" in command and "question failed" in self.fails
            state = {"server": "main", "release": self.release, "active": self.active, "swap": self.swap}
            return json.dumps({**state, "invocation": str(self.starts), "problem": "it sings" if asks else ""})

        return {"stage": stage, "swap new": bring, "back old": bring, "host tell": tell, "which release": self._release}

    def _release(self, _: str) -> Answer:
        return self.release


@dataclass
class FakeFleet:
    """Fake hosts by name and the plan over them."""

    hosts: dict[str, FakeServing]
    plan: Plan
    log: list[tuple[str, str]] = field(default_factory=list)
    """(swap or back, host), in the order in which pyinfra acted."""

    @classmethod
    def of(cls, pools: Mapping[str, str], chosen: Rollout, **changes: Any) -> FakeFleet:
        """Hosts by name, each with its pool."""
        slices = [a_slice(host=f"@fake/{name}", pool=pool, **changes) for name, pool in pools.items()]
        return cls({name: FakeServing() for name in pools}, a_plan(*slices, rollout=chosen))

    def run(self, only: Sequence[str] = (), killed_before: int = -1, **more: Any) -> Ran | None:
        """The outcome of a run on the hosts `only` (empty: all hosts); None if the run was killed."""
        self.log.clear()
        names = [name for name in self.hosts if not only or name in only]
        plan = self.plan.only(f"@fake/{name}" for name in names)
        answers = {name: {**more.get("also", {}), **self.hosts[name].answers(name, self.log)} for name in names}
        began, real = iter(range(10_000)), pyinfra_operations._run_single_op

        def run_or_die(*arguments: Any) -> None:
            if next(began) == killed_before:
                raise Killed
            real(*arguments)

        with mock.patch.object(pyinfra_operations, "_run_single_op", run_or_die):
            try:
                data = {"rollout_settings": {"room_seconds": 0}}
                return run(lambda: story(plan), hosts=names, answers=answers, detect_changes=False, data=data)
            except Killed:
                return None


def story(plan: Plan) -> None:
    """A minimal deploy.py."""
    mine = plan.for_host(host.name)
    rollout.gate_before_changes(plan)
    server.shell("stage", name="Stage")
    rollout.gate_before_drains(mine, plan)
    for number, wave in enumerate(host.loop(plan.waves), start=1):
        if host.name in wave:
            step(CachedFact(Release), swap, name=f"Swap {number}")
        rollout.gate_after_wave(mine, plan, number, put_back)


def swap(release: str) -> Iterator[Command]:
    """Swaps the host to `new`."""
    if release != "new":
        yield StringCommand("swap new")


def put_back(mine: Slice, digest: str, wave: int, releases: Mapping[str, str]) -> Iterator[Command]:
    """Returns the host to its earlier release."""
    assert (digest, set(releases)) == ("plan-1", {"main"})
    yield StringCommand(f"back {releases['main']}")
