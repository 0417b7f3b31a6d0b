"""Random rollouts over a fleet of simulated hosts: failures at every step, control killed at every boundary.

The fleet checks the invariants at every moment, by its hosts' actions and not by the state machine's view.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deploy.rollout.run import Begin, Done, Hold, Run, Stop, TakeBack
from deploy.spec import Rollout
from deploy.topology.waves import Pool, pools_of, waves


class Killed(Exception):
    """Control was killed at this boundary."""


@dataclass
class PretendedHost:
    """A host: its release ("" for none), and its release before the run."""

    release: str = "old"
    before: str = "old"
    serves: bool = True
    is_dead: bool = False
    is_swapping: bool = False

    @property
    def is_ready(self) -> bool:
        """True if a balancer sends requests to it."""
        return self.serves and not self.is_dead


@dataclass
class PretendedFleet:
    """Hosts, their pools, and the random faults. `ends` are the decisions that ended its runs."""

    draw: random.Random
    rollout: Rollout
    pools: tuple[Pool, ...]
    hosts: dict[str, PretendedHost]
    has_balancers: bool
    fails: float = 0.0
    """Probability that a step of a host fails."""
    boundaries: int = -1
    """Number of boundaries left before control is killed; negative: it is not killed."""
    passed: set[str] = field(default_factory=set)
    """Hosts that passed their gate in this run."""
    lost: set[str] = field(default_factory=set)
    is_staged: bool = False

    @classmethod
    def drawn(cls, draw: random.Random, most: int = 200) -> PretendedFleet:
        """A fleet of up to `most` hosts in one to five pools, and a rollout that lets some hosts of each out."""
        names = [f"h{number:03}" for number in range(draw.randint(1, most))]
        pools = ["", *"abcd"] if draw.random() < 0.3 else list("abcde")
        members = [(name, draw.choice(pools[: draw.randint(1, 5)])) for name in names]
        while True:
            rollout = Rollout(
                canary_hosts=draw.randint(0, 3),
                wave_percent=draw.randint(1, 100),
                max_unavailable=draw.choice(["", draw.randint(1, 9), f"{draw.randint(1, 100)}%"]),
                may_be_lost=draw.choice([0, 0, 0, 1, 2]),
                on_failure=draw.choice(["stop", "host", "wave", "all"]),
            )
            made = pools_of(members, rollout)
            if all(pool.wave > 0 for pool in made):
                break
        has_balancers = draw.random() < 0.6
        hosts = {name: PretendedHost() for name in names}
        if has_balancers:  # without a balancer no host's state is known at the start
            is_first = draw.random() < 0.2
            for host in hosts.values():
                if is_first or draw.random() < 0.02:
                    host.serves, host.release, host.before = False, "", ""
        return cls(draw, rollout, made, hosts, has_balancers)

    def wrong(self) -> bool:
        """True if a fault happens here."""
        return self.draw.random() < self.fails

    def boundary(self) -> None:
        """An event boundary. Raises: Killed."""
        self.boundaries -= 1
        if self.boundaries == 0:
            raise Killed

    def drain(self, name: str) -> None:
        """Takes the host out of its pool. Fails if too many are then out, before its turn, or before all are staged."""
        host, (pool, others) = self.hosts[name], self._pool_of[name]
        if host.is_ready:
            out = sum(not host_of_pool.is_ready and host_of_pool.release != "" for host_of_pool in others)
            assert out + 1 <= pool.allowed, f"{out + 1} of pool {pool.name} are out, and {pool.allowed} may be"
        assert self.is_staged, "a drain before every host was staged"
        host.serves, host.is_swapping = False, True

    def run(self, limit: bool = False) -> Run:
        """Runs a rollout to its end, or to its kill; the hosts then finish their current step.

        With `limit` some hosts are out for other reasons, and these and others are not in the run.
        """
        if limit:
            for host in self.hosts.values():
                host.is_dead |= self.draw.random() < 0.1
        chosen = {n for n, host in self.hosts.items() if not limit or (not host.is_dead and self.draw.random() < 0.8)}
        all_waves = waves(self.pools, self.rollout)
        kept = [tuple(name for name in wave if name in chosen) for wave in all_waves]
        self._names = [name for wave in kept for name in wave]
        members = [(pool, [self.hosts[name] for name in pool.hosts]) for pool in self.pools]
        self._pool_of = {name: pool_and_hosts for pool_and_hosts in members for name in pool_and_hosts[0].hosts}
        for host in self.hosts.values():
            host.before = host.release
        self.passed, self.lost, self.is_staged = set(), set(), False
        run = Run([wave for wave in kept if wave], self.pools, self.rollout)
        self.end: Stop | Done | Hold | None = None
        try:
            self._stage(run)
            self.end = self._follow(run)
        except Killed:
            pass
        self._settle()
        return run

    def _stage(self, run: Run) -> None:
        for name in self._names:
            self.boundary()
            if self.hosts[name].is_dead or self.wrong():
                self.hosts[name].is_dead |= self.draw.random() < 0.5
                self._lose(run, name)
            else:
                if not self.hosts[name].release:
                    run.record_newcomer(name)
                run.record("staged", name)
        self.is_staged = True

    def _follow(self, run: Run) -> Stop | Done | Hold:
        at_gate: tuple[str, ...] = ()
        while True:
            self.boundary()
            if self.has_balancers:
                run.record_readiness({name: host.is_ready for name, host in self.hosts.items()})
            decision = run.decide()
            is_begun = isinstance(decision, Begin) and run.waves[decision.wave] == at_gate
            if at_gate and (is_begun or isinstance(decision, Hold)):
                self._gate(run, at_gate)
                at_gate = ()
            elif isinstance(decision, Begin):
                before = [name for wave in run.waves[: decision.wave] for name in wave]
                missing = [name for name in before if name not in self.passed | self.lost]
                assert not missing and len(self.lost) <= self.rollout.may_be_lost, "a wave before its gate"
                at_gate = run.waves[decision.wave]
                self._together(at_gate, lambda name: self._bring(run, name))
            elif isinstance(decision, TakeBack):
                at_gate = ()
                self._together(decision.hosts, lambda name: self._take_back(run, name))
            else:
                return decision

    def _together(self, names: tuple[str, ...], act: Callable[[str], Iterator[None]]) -> None:
        """Interleaves the steps of these hosts in a random order."""
        going = [act(name) for name in names]
        while going:
            self.boundary()
            number = self.draw.randrange(len(going))
            if next(going[number], "ended") == "ended":
                going[number] = going[-1]
                going.pop()

    def _bring(self, run: Run, name: str) -> Iterator[None]:
        host = self.hosts[name]
        if run.states[name] == "lost" or self.is_as_wanted(name) or run.drain_hold(name):
            return
        self.drain(name)
        run.record("drained", name)
        yield
        if self.wrong():  # the swap fails, the host restores its release, and pyinfra counts it as failed
            host.is_swapping, host.serves = False, bool(host.before)
            host.is_dead = self.draw.random() < 0.3
            return self._lose(run, name)
        host.release = "new"
        run.record("swapped", name)
        yield
        host.serves, host.is_swapping = True, False
        run.record("proven", name)
        yield
        run.record("admitted", name)

    def _gate(self, run: Run, wave: tuple[str, ...]) -> None:
        for name in wave:
            host = self.hosts[name]
            if run.states[name] == "lost" or not self.is_as_wanted(name):
                continue  # the run is about to stop, so it did not begin this host
            self.boundary()
            if not self.wrong():
                self.passed.add(name)
                run.record("passed", name)
            elif self.draw.random() < 0.2:
                host.is_dead = True
                self._lose(run, name)
            else:
                verdict = self.draw.choice(["not ready", "slower", "question failed"])
                host.serves = verdict != "not ready"
                run.record(verdict, name)

    def _take_back(self, run: Run, name: str) -> Iterator[None]:
        host = self.hosts[name]
        if not host.before:
            return run.record("kept", name)
        self.drain(name)
        run.record("drained", name)
        yield
        if self.wrong():
            host.is_dead = True
            return self._lose(run, name)
        host.release, host.serves, host.is_swapping = host.before, True, False
        run.record("put back", name)

    def is_as_wanted(self, name: str) -> bool:
        """True if the host needs no change."""
        return self.hosts[name].release == "new" and self.hosts[name].serves

    def _lose(self, run: Run, name: str) -> None:
        self.lost.add(name)
        run.record("lost", name)

    def _settle(self) -> None:
        """Ends the control process: an interrupted swap ends on its host, and crashed servers start again."""
        for host in self.hosts.values():
            if host.is_swapping and not host.is_dead:
                host.release = host.release if self.draw.random() < 0.5 else host.before
                host.is_swapping = False
            host.serves = bool(host.release) and not host.is_dead
