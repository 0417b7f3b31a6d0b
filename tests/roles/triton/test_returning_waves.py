"""The waves of rollback.py on fake hosts: their order, their gates and their room, as in a deploy."""

from __future__ import annotations

import pytest

from tests.roles.triton.histories import FIRST, SECOND, Machines, planned_over, typed


def test_its_waves_are_the_plan_s_from_the_last_to_the_first(machines: Machines) -> None:
    """Canaries have the release that is reverted for the longest time, and lose it last."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    typed(machines)
    assert [set(machines.changed[:1]), set(machines.changed[1:3]), set(machines.changed[3:])] == [
        {"four"},
        {"two", "three"},
        {"one"},
    ]


def test_a_host_that_answers_wrongly_after_it_stops_the_waves_that_follow(machines: Machines) -> None:
    """The host serves again but answers wrongly: gate and message are the same as in a deploy."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.wrong["a"] = "it sings"
    ran = typed(machines)
    assert (ran.stopped, machines.changed) == ("No hosts remaining!", ["four"])
    assert "found  @fake/four fails its question (main: it sings)" in str(ran.log)


def test_no_host_goes_back_while_the_pool_has_no_room(machines: Machines) -> None:
    """Two of the pool may be out, and a balancer reports two."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("four",))
    machines.seen_ready = {"three", "four"}
    ran = typed(machines)
    assert (ran.stopped, machines.changed) == ("No hosts remaining!", [])
    assert "pool chat has no room: with this wave more than 2 would be out" in str(ran.log)


@pytest.mark.parametrize(("on_failure", "left"), [("wave", "abbb"), ("all", "bbbb")])
def test_hosts_go_forward_again_within_the_limits_of_the_rollout(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, on_failure: str, left: str
) -> None:
    """A rollback that failed puts its hosts forward again; the same command, typed again, completes it."""
    planned_over(monkeypatch, on_failure=on_failure)
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.does_not_serve = {"two"}
    assert typed(machines).stopped
    assert "".join(machines.current[name] for name in ("four", "three", "two", "one")) == left
    machines.does_not_serve = set()
    assert (typed(machines).failed_hosts, set(machines.current.values())) == ((), {"a"})


def test_a_server_never_deployed_does_not_block_a_rollback(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    planned_over(monkeypatch, servers=("main", "further"))
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("four",))
    assert (typed(machines).failed_hosts, machines.changed) == ((), ["four"])


def test_a_release_that_was_slower_can_be_gone_back_to(machines: Machines) -> None:
    """Only a deploy compares a release's speed with its predecessor's."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("four",))
    assert typed(machines).stopped == ""


def test_an_interrupted_rollback_can_be_repeated(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.does_not_serve = {"two"}
    stopped = typed(machines)
    assert (stopped.stopped, machines.current) == (
        "No hosts remaining!",
        {"one": "b", "two": "b", "three": "a", "four": "a"},
    )
    machines.does_not_serve = set()
    assert (typed(machines).failed_hosts, machines.changed) == ((), ["two", "one"])
    assert set(machines.current.values()) == {"a"}
