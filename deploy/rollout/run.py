"""A rollout's run as a state machine: it receives events of hosts, and decides the next steps.

Pure: no I/O and no clock. `roles.rollout` reports pyinfra's events to it and carries out its decisions. Its invariants:

    - No host is drained before every host of the run is staged or lost.
    - No host is drained before its wave: all hosts of earlier waves have passed their gate, except as many as may be
      lost.
    - A host is drained only while its pool has room: all hosts that are out and the rest of its wave are together at
      most as many as may be out. A host that is already out needs no room for itself.
    - A host that never served does not count in its pool before it serves.
    - A rollback takes its host out too, and waits for room in the same way.

A killed run leaves no state here. Its hosts finish their swaps by themselves, and the next run is a new `Run`: hosts
that already serve their planned release pass it untouched, and a host that is out needs no room.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from deploy.spec import Rollout
from deploy.topology.waves import Pool, Unit

Failure: TypeAlias = Literal["not ready", "slower", "question failed"]
"""A finding of a gate about a host whose steps all succeeded."""
Step: TypeAlias = Literal["staged", "drained", "swapped", "proven", "admitted", "passed", "put back", "kept", "lost"]
Event: TypeAlias = Step | Failure
BEFORE: Mapping[str, tuple[str, ...]] = {
    "staged": ("waiting",),
    "drained": ("staged", "passed", "not ready", "slower", "question failed"),
    "swapped": ("drained",),
    "proven": ("swapped",),
    "admitted": ("proven",),
    "passed": ("staged", "admitted"),
    "not ready": ("staged", "admitted"),
    "slower": ("staged", "admitted"),
    "question failed": ("staged", "admitted"),
    "put back": ("drained",),
    "kept": ("passed", "not ready", "slower", "question failed"),
}
"""The states that an event may follow; `lost` follows any. `passed` after `staged`: the host needed no change. `kept`:
a rollback is impossible, because the host served no release before this run."""
FAILURES = ("not ready", "slower", "question failed")
OUT = ("drained", "swapped", "proven", "not ready")
BEGUN = ("drained", "swapped", "proven", "admitted")
SETTLED = ("passed", "put back", "kept", "lost", *FAILURES)


@dataclass(frozen=True)
class Hold:
    """A pause: no host is drained yet. `pool` has no room: `out` of its hosts are out, and `allowed` may be."""

    why: str
    pool: str = ""
    out: tuple[str, ...] = ()
    allowed: int = 0


@dataclass(frozen=True)
class Begin:
    """The hosts of this wave, counted from 0, may be drained."""

    wave: int


@dataclass(frozen=True)
class TakeBack:
    """Allows these hosts to drain and to return to their release from before this run."""

    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Stop:
    """The end of the run. `failed`: the gate's findings by host. `stays`: hosts whose rollback did not take place."""

    lost: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    back: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """Every wave has passed its gate."""


UNSTAGED = Hold("not every host is staged")
Decision: TypeAlias = Hold | Begin | TakeBack | Stop | Done


class Run:
    """A run over `waves`: the fleet's waves, or a part of them under `--limit`. `pools` are the fleet's."""

    def __init__(self, waves: Iterable[Iterable[str]], pools: Iterable[Pool], rollout: Rollout) -> None:
        self.waves, self.rollout = tuple(tuple(wave) for wave in waves), rollout
        self.states = {host: "waiting" for wave in self.waves for host in wave}
        self.changed: set[str] = set()
        """Hosts that this run brought to another release, and that did not go back."""
        self.back: set[str] = set()
        self.failed: dict[str, str] = {}
        """A gate's findings, by host."""
        self._pool = {host: pool for pool in pools for host in pool.hosts}
        self._unit: dict[str, Unit] = {host: unit for pool in pools for unit in pool.units for host in unit}
        self._ready: dict[str, bool] = {}
        self._waiting, self._lost, self._out = set(self.states), set[str](), set[str]()
        self._newcomers = set[str]()
        # The first unsettled wave, and the last wave that drained a host.
        self._current, self._last = 0, -1

    def record(self, event: Event, host: str) -> None:
        """Records the progress of a host. Raises: AssertionError for an impossible event, a defect of this project."""
        state = self.states[host]
        assert event == "lost" or state in BEFORE[event], f"{host} is {state} and then {event}"
        if event == "drained":
            held = self.drain_hold(host)
            assert held is None, f"{host} is drained, although {held.why}"
            self._last = self._last if self.is_going_back else self._current
        elif event == "swapped":
            self.changed.add(host)
        elif event == "put back":
            self.changed.discard(host)
            self.back.add(host)
        elif event == "lost":
            self._lost.add(host)
        elif event in FAILURES:
            self.failed[host] = event
        self._waiting.discard(host)
        self.states[host] = event
        self._count(host)

    def record_readiness(self, ready: Mapping[str, bool]) -> None:
        """Records the balancers' view of hosts, including those outside this run: True if the host gets requests."""
        self._ready.update(ready)
        for host in ready:
            self._count(host)

    def record_newcomer(self, host: str) -> None:
        """Records a host that has never served a release."""
        self._newcomers.add(host)
        self._count(host)

    def decide(self) -> Decision:
        """The steps that may be taken now."""
        if self._waiting:
            return UNSTAGED
        if self.is_going_back:
            return self._next_back()
        wave = self._wave()
        if any(self.states[host] in BEGUN for host in wave):
            return Hold(f"wave {self._current + 1} is not through its gate")
        return (self._room(wave) or Begin(self._current)) if wave else Done()

    def drain_hold(self, host: str) -> Hold | None:
        """The reason why the host may not be drained now; None if it may."""
        if self._waiting:
            return UNSTAGED
        group = self.next_back if self.is_going_back else self._wave()
        return self._room(group) if host in group else Hold("it is not its turn")

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(sorted(self._lost))

    @property
    def is_going_back(self) -> bool:
        """True once a gate has failed and its wave is over: no further wave begins."""
        too_much = bool(self.failed) or len(self._lost) > self.rollout.may_be_lost
        return too_much and not any(self.states[host] in BEGUN for host in self._wave())

    @property
    def next_back(self) -> tuple[str, ...]:
        return next(self._groups_back(), ()) if self.is_going_back else ()

    def end(self) -> Stop:
        """The run's end, after which no host is rolled back."""
        stays = tuple(sorted(host for group in self._wanted_back() for host in group if host in self.changed))
        return Stop(self.lost, dict(self.failed), tuple(sorted(self.back)), stays)

    def _wave(self) -> tuple[str, ...]:
        """The hosts of the first unfinished wave; empty after the last."""
        while self._current < len(self.waves):
            wave = self.waves[self._current]
            if any(self.states[host] not in SETTLED for host in wave):
                return wave
            self._current += 1
        return ()

    def _next_back(self) -> Decision:
        """The next hosts to roll back; the run's end if no host is left, or if there is no room for the next."""
        if any(self.states[host] == "drained" for host in self.changed):
            return Hold("hosts are on their way back")
        group = self.next_back
        return TakeBack(group) if group and self._room(group) is None else self.end()

    def _groups_back(self) -> Iterator[tuple[str, ...]]:
        for wanted in self._wanted_back():
            group = tuple(host for host in wanted if host in self.changed and self.states[host] not in ("kept", "lost"))
            if group:
                yield group

    def _wanted_back(self) -> Iterator[tuple[str, ...]]:
        begun = self.waves[self._last :: -1] if self._last >= 0 else ()
        if self.rollout.on_failure == "host":
            yield tuple(sorted(self.failed))
        elif self.rollout.on_failure != "stop":
            yield from begun[: 1 if self.rollout.on_failure == "wave" else None]

    def _room(self, group: Collection[str]) -> Hold | None:
        """None if the whole group may be out together with the hosts already out; else the pool without room."""
        going = [host for host in group if host in self._pool and host not in self._out]
        for pool in {self._pool[host].name: self._pool[host] for host in going}.values():
            out = {self._unit[host] for host in self._out if self._pool.get(host) is pool}
            units = {self._unit[host] for host in group if self._pool.get(host) is pool}
            if len(out | units) > pool.allowed:
                others = tuple(sorted(host for unit in out - units for host in unit))
                return Hold("a pool has no room", pool.name, others, pool.allowed)
        return None

    def _count(self, host: str) -> None:
        """Counts the host as out or in: by this run's actions if it drained the host, else by the balancers' view."""
        state = self.states.get(host, "")
        if state == "admitted":
            self._newcomers.discard(host)
        is_seen = host in self._newcomers or self._ready.get(host, state != "lost")
        is_out = state in OUT or not is_seen
        (self._out.add if is_out else self._out.discard)(host)
