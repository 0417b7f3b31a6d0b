"""The gates, which separate the waves of a run.

pyinfra drops a host that fails and continues with the rest, and it orders operations by source line: without an
operation that every host runs, all waves would drain before the first had swapped (measured on pyinfra 3.10.0). A gate
runs on every host. If a host has failed, the gate stops all remaining hosts.

    gate_before_changes   before the first change: every host matches the plan
    gate_before_drains    no host is drained before every host has image, weights and engines
    gate_after_wave       the hosts of the wave serve, answer, and are no slower than before; or the hosts of
                          `on_failure` return by their own swap, and the run stops

The state machine of `deploy.rollout.run` decides which host may be drained. It is asked when a host is about to act
(`steps.before_acting`), so a host without changes is never drained and needs no room.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping

import gevent
from pyinfra import host, state
from pyinfra.api import operation
from pyinfra.context import ctx_host

from deploy.planning.groups import groups_in_part
from deploy.planning.plan import Plan
from deploy.refusals import refuse_all
from deploy.rollout.run import Event
from deploy.slices.host import Slice
from roles._pyinfra import fact_batch
from roles._pyinfra.events import emit
from roles._pyinfra.steps import Command, Refuse, ask, before_acting, has_failed
from roles.rollout.defaults import settings
from roles.rollout.facts import RolloutFacts, ServerFacts
from roles.rollout.following import Drain, Following, RecordReverted, lost
from roles.rollout.judge import AGAIN, BEGUN, STAGED, UNTOUCHED, finding, gate_failed, hosts_lost, unchanged

__all__ = ["UNTOUCHED", "gate", "gate_after_wave", "gate_before_changes", "gate_before_drains", "hosts_lost"]
Restore = Callable[[Slice, str, int, Mapping[str, str]], Iterator[Command]]
"""Function of a host's slice, the digest, the wave and releases by server: commands that restore these releases."""


@operation()
def gate(
    wave: Collection[str], state_then: str = BEGUN, attempt: str = AGAIN, may_be_lost: int = 0
) -> Generator[Refuse, None, None]:
    """No change if at most `may_be_lost` of `wave` are lost; else this host stops and names the lost hosts.

    `state_then` describes the fleet in the message: `UNTOUCHED` at a gate before the first change; `attempt` is the
    command to type next.
    """
    missing = lost(state, wave)
    if len(missing) <= may_be_lost:
        host.noop("the wave is complete")
        return
    yield Refuse(hosts_lost(missing, len(wave), state_then, attempt))


def gate_before_changes(plan: Plan) -> None:
    """Gate before the first change: every host of the run answers and is as planned, and groups are complete."""
    refuse_all(groups_in_part(plan.slices))
    may_be_lost = plan.rollout.may_be_lost
    gate(plan.hosts, UNTOUCHED, may_be_lost=may_be_lost, name="Gate | Every host matches the plan")


def gate_before_drains(mine: Slice, plan: Plan, name: str = "Gate | Every host has image, weights and engines") -> None:
    """Ends staging: every host has its files, and from here on needs room before it acts. The waves follow at once.

    With `--data only=gateway` no wave follows, and no host has to be staged.
    """
    if plan.gateway_only:
        return
    if host.name in plan.hosts and mine:
        fact_batch.note(RolloutFacts, servers=_servers(mine))
    _staged(mine, Following.of(plan), name=name)


def gate_after_wave(mine: Slice, plan: Plan, number: int, restore: Restore) -> None:
    """Waits until the hosts of wave `number`, counted from 1, have passed their gate; otherwise stops every host.

    With `on_failure` hosts are rolled back first, later waves before earlier ones.
    """
    following, which = Following.of(plan), f"{number} of {len(plan.waves)}"
    wave, on_failure = plan.waves[number - 1], plan.rollout.on_failure
    # Every host runs this operation, so that the next one finds all hosts judged.
    _observed(mine, following, wave, name=f"Gate | Ask wave {which}")
    going = {"stop": (), "all": plan.waves[number - 1 :: -1]}.get(on_failure, (wave,))
    for earlier in host.loop(going):
        if host.name in earlier:
            _restored(mine, following, number, restore, name=f"Gate | Restore wave {plan.waves.index(earlier) + 1}")
    _judged(following, wave, name=f"Gate | Wave {which}")


@operation()
def _staged(mine: Slice, following: Following) -> Generator[Refuse, None, None]:
    """No commands if at most `may_be_lost` hosts failed. Registers the others with the rollout state machine."""
    plan = following.plan
    if not state.is_executing:
        yield from _missing(plan.hosts, plan.rollout.may_be_lost, STAGED)
        return
    following.stage(state)
    balancers = [balancer.host for balancer in plan.balancers]
    if missing := lost(state, balancers):  # the targets of a failed host are unknown
        yield Refuse(hosts_lost(missing, len(balancers), STAGED))
        return
    yield from _stopping(following, len(plan.hosts), STAGED)
    if host.name in following.run.states:
        all_facts = following.before[host.name] = ask(host, RolloutFacts, servers=_servers(mine))
        emit(host.name, last_swap_seconds=sum(facts.swap.get("seconds", 0) for facts in all_facts.values()))
        if not any(facts.release for facts in all_facts.values()):
            following.run.record_newcomer(host.name)
        before_acting[ctx_host.get()] = Drain(following, mine, settings(host).room_seconds)
    host.noop("every host is staged")


@operation()
def _observed(mine: Slice, following: Following, wave: Collection[str]) -> Generator[Command, None, None]:
    """Records the host's result of its wave in the rollout state machine. Changes nothing on the host."""
    yield from ()
    if state.is_executing:
        following.notice(state)
        if host.name in wave:
            _ask(mine, following)
    host.noop("asked")


def _ask(mine: Slice, following: Following) -> None:
    run, rollout = following.run, following.plan.rollout
    before_acting.pop(ctx_host.get(), None)
    before, servers = following.before.get(host.name, {}), _servers(mine)
    acted = run.states[host.name] == "drained"
    now = ask(host, RolloutFacts, servers=servers)
    failure, why = None, ""
    if acted or not unchanged(before, now):
        floor = settings(host).slower_floor_milliseconds / 1000
        for seconds in (0, rollout.bake_seconds) if rollout.bake_seconds else (0,):
            if seconds:
                host.log(f"waits {seconds} s before it is asked again")
                gevent.sleep(seconds)
            now = ask(host, RolloutFacts, servers=servers, asks=True)
            failure, why = finding(mine, before, now, rollout, floor)
            if failure:
                break
    if has_failed(host):
        return  # the answer is only a default; the next operation counts the host as lost
    following.now[host.name], following.why[host.name] = now, why
    events: tuple[Event, ...] = ("swapped", "proven", "admitted") if acted else ()
    for event in (*events, failure or "passed"):
        following.record(event, host.name)


@operation()
def _restored(mine: Slice, following: Following, wave: int, restore: Restore) -> Generator[Command, None, None]:
    """Puts the host back on its release from before this run, if a gate has stopped the run and it is this host's
    turn."""
    if state.is_executing:
        following.notice(state)
        if host.name in following.run.next_back:
            releases = _changed(following.before.get(host.name, {}), following.now.get(host.name, {}))
            if releases:
                yield Drain(following, mine, settings(host).room_seconds)
                yield from restore(mine, following.plan.digest, wave, releases)
                yield RecordReverted(following)
                return
            following.record("kept", host.name)
    host.noop("nothing goes back here")


@operation()
def _judged(following: Following, wave: Collection[str]) -> Generator[Refuse, None, None]:
    """No change while the run continues; else this host stops with the refusal of the gate."""
    if not state.is_executing:
        yield from _missing(wave, following.plan.rollout.may_be_lost, BEGUN)
        return
    following.notice(state)
    yield from _stopping(following, len(wave), BEGUN)
    host.noop("the wave is complete")


def _missing(wave: Collection[str], may_be_lost: int, state_then: str) -> Iterator[Refuse]:
    """Output of `--dry` for hosts that cannot be reached."""
    missing = lost(state, wave)
    if len(missing) > may_be_lost:
        yield Refuse(hosts_lost(missing, len(wave), state_then))
        return
    host.noop("the wave is complete")


def _stopping(following: Following, size: int, state_then: str) -> Iterator[Refuse]:
    end = following.end()
    if end:
        yield Refuse(gate_failed(end, following.why, size, state_then))


def _servers(mine: Slice) -> tuple[str, ...]:
    return tuple(server.name for server in mine.servers)


def _changed(before: Mapping[str, ServerFacts], now: Mapping[str, ServerFacts]) -> dict[str, str]:
    return {
        name: facts.release
        for name, facts in before.items()
        if facts.release and name in now and now[name].release != facts.release
    }
