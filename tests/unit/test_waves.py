"""Waves by pool: a canary of each, never more out of a pool than it allows, and a stable order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deploy.inventory.fleet import DEFAULT_ROLLOUT
from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.spec import Rollout
from deploy.topology.waves import Pool, pools_of, waves
from deploy.validation.rollout import rollout_problems
from tests.unit.samples import plan, sources
from tests.unit.test_report import printed

CHAT, RANK = [(f"c{number}", "chat") for number in range(1, 7)], [(f"r{number}", "rank") for number in range(1, 4)]
NAMES = st.integers(0, 199).map(lambda number: f"h{number:03}")
MEMBERS = st.dictionaries(NAMES, st.sampled_from("abcde"), min_size=1).map(lambda pools: list(pools.items()))
ROLLOUTS = st.builds(
    Rollout,
    canary_hosts=st.integers(0, 3),
    wave_percent=st.integers(1, 100),
    max_unavailable=st.one_of(st.just(""), st.integers(1, 9), st.integers(1, 100).map(lambda n: f"{n}%")),
    may_be_lost=st.integers(0, 2),
)


def made(members: list[tuple[str, str]], rollout: Rollout = DEFAULT_ROLLOUT) -> tuple[tuple[str, ...], ...]:
    """The waves of (host, pool)."""
    return waves(pools_of(members, rollout), rollout)


def test_the_first_wave_has_one_canary_of_each_pool() -> None:
    assert made([*RANK, *CHAT])[0] == ("c1", "r1")


def test_a_named_pool_loses_at_most_a_quarter_by_default() -> None:
    assert [pool.allowed for pool in pools_of([*CHAT, *RANK], Rollout())] == [1, 1]
    assert made(CHAT)[1:] == (("c2",), ("c3",), ("c4",), ("c5",), ("c6",))


def test_a_wave_larger_than_a_pool_allows_is_split() -> None:
    rollout = Rollout(wave_percent=100, max_unavailable=2)
    assert made([*CHAT, *RANK], rollout) == (("c1", "r1"), ("c2", "c3", "r2", "r3"), ("c4", "c5"), ("c6",))


def test_more_canaries_than_a_pool_allows_go_one_after_the_other() -> None:
    """No other host goes before the last canary of any pool."""
    rollout = Rollout(canary_hosts=2, max_unavailable=1, wave_percent=100)
    assert made([*CHAT[:3], ("x", "")], rollout) == (("c1", "x"), ("c2",), ("c3",))


def test_a_wave_leaves_room_for_the_hosts_that_may_be_lost() -> None:
    """Lost hosts stay out while the next wave is drained."""
    rollout = Rollout(canary_hosts=0, wave_percent=100, max_unavailable=3, may_be_lost=1)
    assert made(CHAT, rollout) == (("c1", "c2"), ("c3", "c4"), ("c5", "c6"))


def test_a_share_of_a_pool_is_rounded_down() -> None:
    assert [pool.allowed for pool in pools_of([*CHAT, *RANK], Rollout(max_unavailable="40%"))] == [2, 1]


def test_hosts_that_go_out_together_are_counted_as_one() -> None:
    rollout = Rollout(canary_hosts=1, wave_percent=100, max_unavailable=1)
    two = Pool("big", (("a1", "a2"), ("b1", "b2")), allowed=1, wave=1)
    assert waves([two], rollout) == (("a1", "a2"), ("b1", "b2"))


def test_a_farm_host_counts_in_no_pool_and_is_no_canary() -> None:
    """A farm host does not serve, so it is in the last wave."""
    rollout = Rollout()
    assert waves(pools_of([("h1", ""), ("h2", "")], rollout), rollout, non_serving=["a-farm"]) == (
        ("h1",),
        ("a-farm", "h2"),
    )
    assert waves((), rollout, non_serving=["a-farm"]) == (("a-farm",),)


@given(MEMBERS, ROLLOUTS)
def test_no_wave_takes_more_out_of_a_pool_than_it_allows(members: list[tuple[str, str]], rollout: Rollout) -> None:
    """Hosts that may be lost earlier are included."""
    if list(rollout_problems(rollout, ())) or any(pool.wave < 1 for pool in pools_of(members, rollout)):
        return
    pools = pools_of(members, rollout)
    for wave in waves(pools, rollout):
        for pool in pools:
            assert len(set(wave) & set(pool.hosts)) + rollout.may_be_lost <= pool.allowed


@given(MEMBERS.flatmap(lambda members: st.tuples(st.just(members), st.permutations(members))))
def test_the_order_is_that_of_the_names(both: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> None:
    assert made(both[0]) == made(both[1])


def in_a_pool() -> Plan:
    """The plan of six hosts of one pool."""
    return plan(*sources(*"abcdef", pool="chat"))


def test_under_limit_the_waves_and_the_pool_stay_those_of_the_fleet() -> None:
    whole = in_a_pool()
    some = whole.only(["b", "f"])
    assert (some.waves, some.pools) == ((("b",), ("f",)), whole.pools)


def test_a_pool_is_part_of_the_plan_and_of_its_digest() -> None:
    """A plan without a pool keeps its digest."""
    without = plan(*sources("a", "b", "c", "d", "e", "f"))
    assert in_a_pool().digest != without.digest
    assert "pool" not in str(without.to_json())
    assert in_a_pool().to_json()["pools"] == [{"name": "chat", "hosts": list("abcdef"), "max_unavailable": 1}]


def test_the_printed_plan_says_how_many_of_a_pool_may_be_out() -> None:
    """The number is printed beside the waves; without pools the output is unchanged."""
    lines = printed(plan_report(in_a_pool())).splitlines()
    assert "pool chat  1 of 6 may be out: a, b, c, d, e, f" in lines
    assert not [line for line in printed(plan_report(plan())).splitlines() if line.startswith("pool")]


def test_an_invalid_share_takes_no_host_out() -> None:
    """A refusal names the invalid share; the count raises no exception (a million inventories by a seed,
    2026-11-27)."""
    for share in (" ", "/", "a quarter", "%"):
        (pool,) = pools_of([("a", "chat"), ("b", "chat")], Rollout(max_unavailable=share))
        assert pool.allowed == 0
