"""The current pyinfra run in the form of the state machine of `deploy.rollout.run`.

It is stored beside pyinfra's state as long as the run lasts. Hosts are greenlets of one process: between two waits only
one host reads and writes the state machine.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from weakref import WeakKeyDictionary

import gevent
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand
from pyinfra.context import ctx_state

from deploy.planning.plan import Plan
from deploy.rollout.run import Event, Hold, Run, Stop
from deploy.slices.host import Slice
from roles._pyinfra.events import emit
from roles._pyinfra.steps import Refuse
from roles._shipping import units
from roles.rollout.facts import ServerFacts, readiness_command, ready_hosts
from roles.rollout.judge import no_room

AGAIN_SECONDS = 2


class Following:
    """The state machine, with the servers' states and the gates' messages, which it does not store."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.run = plan, Run(plan.waves, plan.pools, plan.rollout)
        emit(waves=plan.waves)
        self.before: dict[str, dict[str, ServerFacts]] = {}
        """State of each host's servers when the run had staged everything."""
        self.now: dict[str, dict[str, ServerFacts]] = {}
        self.why: dict[str, str] = {}

    @classmethod
    def of(cls, plan: Plan) -> Following:
        """The state machine of the current run; each run of pyinfra has one. Every host asks for it once a wave."""
        state = ctx_state.get()
        if state not in _followings:
            _followings[state] = cls(plan)
        return _followings[state]

    def record(self, event: Event, host: str) -> None:
        """Records the host's progress, and informs the watchers of the run."""
        self.run.record(event, host)
        emit(host, stage=event)

    def notice(self, state: State) -> None:
        """Marks hosts that pyinfra has given up as lost, in the state machine."""
        active = {host.name for host in state.active_hosts}
        for name, was in self.run.states.items():
            if was != "lost" and name not in active:
                self.record("lost", name)

    def stage(self, state: State) -> None:
        """Marks every waiting host as staged."""
        self.notice(state)
        for name, was in self.run.states.items():
            if was == "waiting":
                self.record("staged", name)

    def end(self) -> Stop | None:
        return self.run.end() if self.run.is_going_back else None

    def look_for_room(self, mine: Slice, host: Host, arguments: ConnectorArguments) -> Hold | None:
        """The reason why the host may not be drained now, by its balancers' view of the pool; None if it may."""
        if mine.traffic and mine.traffic.balancers:
            self.run.record_readiness(
                ready_hosts(units.run(host, readiness_command(mine.traffic.balancers), arguments), self.plan.pools)
            )
        return self.run.drain_hold(host.name)


_followings: WeakKeyDictionary[State, Following] = WeakKeyDictionary()


class Drain(PyinfraCommand):
    """Waits until the host's pool has room for it, and records that the host goes out; fails if there is no room."""

    def __init__(self, following: Following, mine: Slice, seconds: int) -> None:
        super().__init__()
        self.following, self.mine, self.seconds = following, mine, seconds

    def __repr__(self) -> str:
        return "wait for room in the pool"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the host may be drained; the state machine then counts it as out."""
        until = time.monotonic() + self.seconds
        while hold := self.following.look_for_room(self.mine, host, connector_arguments):
            if not hold.pool or time.monotonic() >= until:
                Refuse(no_room(hold, self.seconds)).log(host)
                return False
            gevent.sleep(AGAIN_SECONDS)
        self.following.record("drained", host.name)
        return True


class RecordReverted(PyinfraCommand):
    """Records that the host serves its earlier release again."""

    def __init__(self, following: Following) -> None:
        super().__init__()
        self.following = following

    def __repr__(self) -> str:
        return "put back"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True, after recording that the host serves its earlier release again."""
        self.following.record("put back", host.name)
        return True


def lost(run: State, wave: Collection[str]) -> tuple[str, ...]:
    """Hosts of the wave that failed or never answered."""
    left = {peer.name for peer in run.active_hosts}
    return tuple(sorted(name for name in wave if name not in left))
