"""The state machine of a rollout, step by step, and in a thousand random rollouts."""

from __future__ import annotations

import os
import random

import pytest

from deploy.rollout.run import Begin, Done, Hold, Run, Stop, TakeBack
from deploy.spec import Rollout
from deploy.topology.waves import pools_of, waves
from tests.unit.rollouts import PretendedFleet

ROLLOUTS = int(os.environ.get("ENGINEHOUSE_ROLLOUTS", "1000"))
"""Number of random rollouts, whose seeds are the numbers below it. 10,000 take about ten times as long."""


def a_run(hosts: str = "abcd", **changes: object) -> Run:
    """A run over one pool: a canary, then the rest one at a time, unless `changes` of Rollout differ."""
    rollout = Rollout(**{"max_unavailable": 1, **changes})
    pools = pools_of([(name, "chat") for name in hosts], rollout)
    return Run(waves(pools, rollout), pools, rollout)


def record(run: Run, host: str, *events: str) -> Run:
    """The run after these events of the host."""
    for event in events:
        run.record(event, host)
    return run


SWAP = ("drained", "swapped", "proven", "admitted")


def staged(**changes: object) -> Run:
    """A run of which every host is staged."""
    run = a_run(**changes)
    for host in run.states:
        run.record("staged", host)
    return run


def test_no_host_is_drained_before_every_host_is_staged() -> None:
    run = record(record(a_run(), "a", "staged"), "b", "staged")
    assert run.decide() == Hold("not every host is staged")
    with pytest.raises(AssertionError, match="not every host is staged"):
        run.record("drained", "a")


def test_no_wave_begins_before_the_gate_of_the_one_before() -> None:
    """An admitted host has not passed yet: the gate still has to judge it."""
    run = record(staged(), "a", *SWAP)
    assert run.decide() == Hold("wave 1 is not through its gate")
    assert record(run, "a", "passed").decide() == Begin(1)


def test_a_host_with_nothing_to_do_passes_without_being_drained() -> None:
    assert record(staged(), "a", "passed").decide() == Begin(1)


def test_a_run_is_done_when_its_last_wave_has_passed() -> None:
    run = staged()
    for host in "abcd":
        record(run, host, *SWAP, "passed")
    assert run.decide() == Done()


@pytest.mark.parametrize("verdict", ["not ready", "slower", "question failed"])
def test_a_failed_gate_stops_the_run(verdict: str) -> None:
    run = record(staged(), "a", *SWAP, verdict)
    assert run.decide() == Stop((), {"a": verdict})


def test_a_lost_host_stops_the_run_once_its_wave_is_over() -> None:
    """The other hosts of the wave are already drained, so their steps end first."""
    run = staged(canary_hosts=0, wave_percent=100, max_unavailable=2)
    record(record(run, "b", "drained"), "a", "drained", "lost")
    assert run.decide() == Hold("wave 1 is not through its gate")
    assert record(run, "b", "swapped", "proven", "admitted", "passed").decide() == Stop(("a",))


def test_a_lost_host_keeps_the_rest_of_its_wave_from_draining() -> None:
    run = record(staged(canary_hosts=0, wave_percent=100, max_unavailable=2), "a", "drained", "lost")
    assert run.drain_hold("b") == Hold("it is not its turn")


def test_a_host_lost_while_staging_stops_the_run_before_the_first_drain() -> None:
    run = a_run()
    record(run, "d", "lost")
    for host in "abc":
        record(run, host, "staged")
    assert run.decide() == Stop(("d",))


def test_a_run_may_lose_as_many_hosts_as_its_rollout_says() -> None:
    run = record(staged(max_unavailable=2, may_be_lost=1), "a", "drained", "lost")
    assert run.decide() == Begin(1)
    assert record(run, "b", "drained", "lost").decide() == Stop(("a", "b"))


def test_a_host_not_seen_ready_counts_as_out() -> None:
    """The unready host may be outside this run: with one of four hosts out, no other host may be drained."""
    run = staged()
    run.record_readiness({"d": False})
    assert run.decide() == Hold("a pool has no room", "chat", ("d",), 1)
    run.record_readiness({"d": True})
    assert run.decide() == Begin(0)


def test_a_first_deploy_begins_although_no_host_is_ready() -> None:
    """An unready host is the one to repair, and at a first deploy no host serves yet."""
    run = staged()
    run.record_readiness(dict.fromkeys("abcd", False))
    assert run.decide() == Begin(0)


def test_a_new_host_does_not_delay_other_hosts_drains() -> None:
    """A host that joins a pool is deployed in its wave; other hosts need not wait for it."""
    run = staged()
    run.record_readiness({"d": False})
    run.record_newcomer("d")
    assert run.decide() == Begin(0)


def test_a_canary_of_one_pool_does_not_wait_for_the_room_of_another() -> None:
    """Room is counted by pool; the wave waits as a whole."""
    rollout = Rollout(max_unavailable=1)
    pools = pools_of([("a", "chat"), ("b", "chat"), ("r", "rank"), ("s", "rank")], rollout)
    run = Run(waves(pools, rollout), pools, rollout)
    for host in "abrs":
        run.record("staged", host)
    run.record_readiness({"s": False, "b": True})
    assert run.decide() == Hold("a pool has no room", "rank", ("s",), 1)


@pytest.mark.parametrize(
    ("on_failure", "groups"), [("host", [("c",)]), ("wave", [("c", "d")]), ("all", [("c", "d"), ("a", "b")])]
)
def test_hosts_go_back_within_the_limits_of_the_rollout(on_failure: str, groups: list[tuple[str, ...]]) -> None:
    """The last wave is reverted first, and two waves are never reverted together."""
    run = staged(canary_hosts=2, wave_percent=100, max_unavailable=2, on_failure=on_failure)
    for host in "abd":
        record(run, host, *SWAP, "passed")
    record(run, "c", *SWAP, "slower")
    for group in groups:
        assert run.decide() == TakeBack(group)
        for host in group:
            record(run, host, "drained", "put back")
    assert run.decide() == Stop((), {"c": "slower"}, tuple(sorted(host for group in groups for host in group)))


def test_a_host_without_an_earlier_release_stays_on_the_new_one() -> None:
    run = record(staged(on_failure="host"), "a", *SWAP, "question failed")
    assert run.decide() == TakeBack(("a",))
    assert record(run, "a", "kept").decide() == Stop((), {"a": "question failed"}, (), ("a",))


def test_going_back_waits_for_room_too() -> None:
    run = staged(max_unavailable=1, on_failure="all")
    record(record(run, "a", *SWAP, "passed"), "b", "drained", "swapped", "lost")
    assert run.decide() == Stop(("b",), {}, (), ("a", "b"))


def test_no_host_is_drained_once_the_run_stops() -> None:
    run = record(staged(), "a", *SWAP, "not ready")
    with pytest.raises(AssertionError, match="not its turn"):
        run.record("drained", "b")


def one_rollout(seed: int) -> PretendedFleet:
    """A fleet after up to three runs with failures, kills and limits, and a last run without faults."""
    draw = random.Random(seed)
    fleet = PretendedFleet.drawn(draw)
    for _ in range(draw.randint(1, 3)):
        fleet.fails = draw.choice([0.0, 0.002, 0.01, 0.1])
        fleet.boundaries = draw.randint(1, 6 * len(fleet.hosts)) if draw.random() < 0.5 else -1
        fleet.run(limit=fleet.has_balancers and draw.random() < 0.3)
        for name, host in fleet.hosts.items():
            assert host.is_dead or host.serves or not host.before, f"{name} serves nothing"
    for host in fleet.hosts.values():  # repairs the hosts that the message names
        if host.is_dead:
            host.is_dead, host.serves = False, bool(host.release)
    fleet.fails, fleet.boundaries = 0.0, -1
    fleet.run()
    return fleet


@pytest.mark.parametrize("tenth", range(10))
def test_random_rollouts_keep_every_rule(tenth: int) -> None:
    """Pools keep their limits, waves their gates, every host serves, and a plain run converges."""
    for seed in range(tenth * ROLLOUTS // 10, (tenth + 1) * ROLLOUTS // 10):
        fleet = one_rollout(seed)
        assert isinstance(fleet.end, Done), (seed, fleet.end)
        assert {(host.release, host.serves) for host in fleet.hosts.values()} == {("new", True)}, seed


def test_random_rollouts_drain_stop_and_go_back() -> None:
    """The drawn runs reach every decision, so the invariants above are not met by inaction."""
    seen = set[str]()
    for seed in range(60):
        fleet = PretendedFleet.drawn(random.Random(seed), most=40)
        fleet.fails = 0.05
        for limit in (False, fleet.has_balancers):
            run = fleet.run(limit)
            seen |= {type(fleet.end).__name__, *run.states.values(), *({"back"} if run.back else ())}
    assert {"Done", "Stop", "Hold", "back", "slower", "not ready", "question failed", "lost", "passed"} <= seen
