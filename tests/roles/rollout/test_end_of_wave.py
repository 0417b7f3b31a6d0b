"""A wave's gate through pyinfra, on fake hosts: the hosts it asks, its failures, rollbacks, and messages."""

from __future__ import annotations

from typing import Any

import gevent
import pytest

from deploy.slices.traffic import SeenBySlice, TrafficSlice
from deploy.spec import Rollout
from roles import rollout
from tests.roles.fake import Ran, Then
from tests.roles.rollout.fleet import FakeFleet

ONE_BY_ONE = Rollout(max_unavailable=1, slower_percent=20)
EXPORTER = 'haproxy_server_status{{proxy="chat_{way}",server="_fake_{host}.main",state="UP"}} {up}'
SEEN = TrafficSlice(
    address="10.0.0.11",
    ready_port=8003,
    agent_port=8004,
    drain_seconds=60,
    heard_seconds=5,
    balancers=(SeenBySlice(name="edge", metrics="http://10.0.0.5:8405/metrics"),),
    servers=(),
)


def fleet(chosen: Rollout = ONE_BY_ONE, **changes: Any) -> FakeFleet:
    """Three hosts of the pool `chat`."""
    return FakeFleet.of(dict.fromkeys(("one", "two", "three"), "chat"), chosen, **changes)


def run(made: FakeFleet, **more: Any) -> Ran:
    """The outcome of a run that was not killed."""
    ran = made.run(**more)
    assert ran is not None
    return ran


def lines_of(ran: Ran, host: str) -> list[str]:
    """The lines under one host's name, without it."""
    prefix = f"[@fake/{host}]"
    return [" ".join(line.removeprefix(prefix).split()) for line in ran.log if line.startswith(prefix)]


def swapped(made: FakeFleet) -> list[str]:
    """Hosts that were swapped, in order."""
    return [name.removeprefix("@fake/") for verb, name in made.log if verb == "swap"]


def seen(*up: str) -> dict[str, str]:
    """The answers of a balancer that sends to these hosts."""
    lines = [
        EXPORTER.format(way=way, host=host, up=int(host in up))
        for host in ("one", "two", "three")
        for way in ("http", "grpc")
    ]
    return {"curl": "\n".join(["balancer=edge", *lines])}


def test_hosts_go_one_wave_after_the_other_while_every_gate_is_passed() -> None:
    made = fleet()
    assert (run(made).stopped, swapped(made)) == ("", ["one", "three", "two"])


def test_a_run_without_changes_drains_no_host_and_calls_no_model() -> None:
    made = fleet()
    for host in made.hosts.values():
        host.release = "new"
    ran = run(made)
    assert (swapped(made), [step.name for step in ran.steps if step.commands and step.name != "Stage"]) == ([], [])
    assert not [heard for heard in ran.shell["one"] if "--ask" in heard.command]


@pytest.mark.parametrize(
    ("fails", "finding"),
    [
        ("not ready", "@fake/one is not ready (main is failed)"),
        ("question failed", "@fake/one fails its question (main: it sings)"),
        ("slower", "@fake/one is slower (main: rank answers in 2.00 s, and before in 1.00 s (20 % more may be))"),
    ],
)
def test_a_canary_that_does_not_serve_as_it_should_leaves_later_waves_untouched(fails: str, finding: str) -> None:
    """The message has the finding and the host."""
    made = fleet()
    made.hosts["one"].fails = (fails,)
    ran = run(made)
    assert (swapped(made), ran.stopped, ran.failed_hosts) == (["one"], "No hosts remaining!", ("one", "three", "two"))
    assert "the gate failed: 1 of 1 hosts did not pass" in lines_of(ran, "two")
    assert f"found {finding}" in lines_of(ran, "two")


def test_a_swap_that_fails_is_a_lost_host() -> None:
    """The host's own swap restored the previous release."""
    made = fleet()
    made.hosts["one"].fails = ("swap",)
    ran = run(made)
    assert (swapped(made), made.hosts["one"].release) == (["one"], "old")
    assert "the gate failed: 1 of 1 hosts are lost" in lines_of(ran, "two")


def test_no_host_is_drained_if_staging_failed_on_one() -> None:
    """For example a full disk, or an image that does not arrive."""
    made = fleet()
    made.hosts["two"].fails = ("stage",)
    ran = run(made)
    assert (swapped(made), ran.stopped) == ([], "No hosts remaining!")
    assert "no host was drained; every host that served serves what it served" in str(ran.log)


def test_a_run_goes_on_without_as_many_hosts_as_may_be_lost() -> None:
    made = fleet(Rollout(max_unavailable=2, may_be_lost=1))
    made.hosts["three"].fails = ("stage",)
    assert (run(made).stopped, swapped(made)) == ("", ["one", "two"])


def test_a_failed_host_returns_to_its_earlier_release() -> None:
    made = fleet(Rollout(max_unavailable=1, on_failure="host"))
    made.hosts["one"].fails = ("question failed",)
    ran = run(made)
    assert made.log == [("swap", "@fake/one"), ("back", "@fake/one")]
    assert "restored @fake/one: the earlier release serves again" in lines_of(ran, "two")


def test_every_wave_goes_back_the_last_one_first() -> None:
    made = fleet(Rollout(max_unavailable=1, on_failure="all"))
    made.hosts["two"].fails = ("question failed",)
    run(made)
    assert [name for verb, name in made.log if verb == "back"] == ["@fake/two", "@fake/three", "@fake/one"]
    assert {host.release for host in made.hosts.values()} == {"old"}


def test_a_host_that_served_nothing_before_stays() -> None:
    made = fleet(Rollout(max_unavailable=1, on_failure="host"))
    made.hosts["one"].release, made.hosts["one"].fails = "", ("question failed",)
    ran = run(made)
    assert made.log == [("swap", "@fake/one")]
    assert "unchanged  @fake/one: lost, without room in the pool, or nothing served there before" in str(ran.log)


def test_a_gate_waits_after_a_change_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    real = gevent.sleep
    monkeypatch.setattr(gevent, "sleep", lambda seconds=0, **_: waited.append(seconds) or real(0))
    made = fleet(Rollout(max_unavailable=1, bake_seconds=300))
    made.hosts["three"].release = "new"
    ran = run(made)
    assert waited.count(300) == 2  # once for each host that swapped
    assert [len([h for h in ran.shell[name] if "--ask" in h.command]) for name in ("one", "two", "three")] == [2, 2, 0]


def test_a_host_is_not_drained_while_its_pool_has_no_room() -> None:
    """Another host is out, by a balancer's answer: it need not be in this run."""
    made = fleet(traffic=SEEN)
    ran = run(made, only=("one", "two"), also=seen("one", "two"))
    assert (swapped(made), ran.stopped) == ([], "No hosts remaining!")
    assert "pool chat has no room: with this wave more than 1 would be out" in lines_of(ran, "one")
    assert "out @fake/three" in lines_of(ran, "one")


def test_a_host_that_is_out_needs_no_room() -> None:
    made = fleet(traffic=SEEN)
    run(made, only=("three",), also=seen("one", "two"))
    assert swapped(made) == ["three"]


def test_a_host_waits_until_its_pool_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balancer sees hosts of the previous wave as ready slightly after they serve."""
    monkeypatch.setattr(rollout.following.time, "monotonic", lambda: -1.0)
    monkeypatch.setattr(rollout.following, "AGAIN_SECONDS", 0)
    made = fleet(traffic=SEEN)
    answers = Then(seen("two", "three")["curl"], seen("one")["curl"], seen("one", "two", "three")["curl"])
    run(made, only=("one", "two"), also={"curl": answers})
    assert swapped(made) == ["one", "two"]


def test_a_host_with_nothing_to_do_does_not_ask_for_room() -> None:
    """A fleet with a host that is out can be deployed to again."""
    made = fleet(traffic=SEEN)
    for host in made.hosts.values():
        host.release = "new"
    ran = run(made, also=seen())
    assert (ran.stopped, [heard for heard in ran.shell["one"] if "curl" in heard.command]) == ("", [])
