"""Facts of hosts and balancers, and the gate's interpretation of them."""

from __future__ import annotations

import json

import pytest

from deploy.slices.traffic import SeenBySlice
from deploy.spec import Rollout
from deploy.topology.waves import pools_of
from roles.rollout.facts import RolloutFacts, ServerFacts, readiness_command, ready_hosts
from roles.rollout.judge import finding, slower, unchanged
from tests.roles.slices import a_slice

POOLS = pools_of([("h1", "chat"), ("h.2", "chat"), ("x", "")], Rollout())


def up(proxy: str, line: str, value: int) -> str:
    """A line of HAProxy's exporter."""
    return f'haproxy_server_status{{proxy="{proxy}",server="{line}",state="UP"}} {value}'


def ready(*lines: str) -> dict[str, bool]:
    """Readiness by host, from the lines of a balancer."""
    return ready_hosts(["balancer=edge", *lines], POOLS)


def test_a_host_is_ready_where_all_its_lines_are_up() -> None:
    lines = [up("chat_http", "h1.main", 1), up("chat_grpc", "h1.main", 1), up("chat_http", "h_2.main", 0)]
    assert ready(*lines) == {"h1": True, "h.2": False}


def test_a_host_without_a_line_is_not_ready() -> None:
    """A balancer without a line for the host sends no requests there."""
    assert ready(up("chat_http", "h1.main", 1)) == {"h1": True, "h.2": False}


def test_a_balancer_that_cannot_be_asked_says_nothing() -> None:
    assert ready_hosts([], POOLS) == {}


def test_a_balancer_without_the_pool_says_nothing_of_it() -> None:
    assert ready(up("rank_http", "r1.main", 1)) == {}


def test_two_balancers_have_to_agree_that_a_host_is_ready() -> None:
    first = ["balancer=a", up("chat_http", "h1.main", 1), up("chat_http", "h_2.main", 1)]
    second = ["balancer=b", up("chat_http", "h1.main", 1), up("chat_http", "h_2.main", 0)]
    assert ready_hosts([*first, *second], POOLS) == {"h1": True, "h.2": False}


def test_each_balancers_metrics_are_queried() -> None:
    script = readiness_command([SeenBySlice(name="edge", metrics="http://10.0.0.5:8405/metrics")])
    assert "--max-time 5 http://10.0.0.5:8405/metrics" in script and "echo balancer=edge" in script


def test_a_host_without_our_programs_has_no_facts() -> None:
    assert RolloutFacts().process([]) == {}
    assert RolloutFacts().command([]) == "true"


def test_facts_of_a_server_are_read_from_a_line_of_the_host() -> None:
    """Keys of a newer version are ignored."""
    line = {"server": "main", "release": "new", "active": "active", "invocation": "i", "further": 1}
    assert RolloutFacts().process(["a warning", json.dumps(line)]) == {
        "main": ServerFacts("main", "new", "active", "i")
    }


OLD, NEW = ServerFacts("main", "old", "active", "1"), ServerFacts("main", "new", "active", "2")


def swapped(after: float, before: float) -> ServerFacts:
    """The new release, which answers in `after` seconds; the old release took `before`."""
    verdict = {"release": "new", "from": "old", "answers": {"rank": after}, "answers_before": {"rank": before}}
    return ServerFacts("main", "new", "active", "2", verdict)


@pytest.mark.parametrize(("after", "before", "is_slower"), [(1.2, 1.0, False), (1.3, 1.0, True), (0.05, 0.01, False)])
def test_slower_is_more_than_the_share_and_more_than_the_floor(after: float, before: float, is_slower: bool) -> None:
    assert bool(list(slower(OLD, swapped(after, before), 20, 0.05))) == is_slower


def test_answers_are_not_compared_without_the_setting_or_after_another_swap() -> None:
    assert list(slower(OLD, swapped(9, 1), 0, 0)) == []
    assert list(slower(ServerFacts("main", "older"), swapped(9, 1), 20, 0)) == []


def test_a_server_that_is_not_there_is_not_ready() -> None:
    assert finding(a_slice(), {}, {}, Rollout(), 0) == ("not ready", "main is not there")


def test_the_worst_is_found_first() -> None:
    wrong = ServerFacts("main", "new", "active", "2", swapped(9, 1).swap, "it sings")
    assert finding(a_slice(), {"main": OLD}, {"main": wrong}, Rollout(slower_percent=20), 0)[0] == "question failed"
    assert finding(a_slice(), {"main": OLD}, {"main": swapped(9, 1)}, Rollout(slower_percent=20), 0)[0] == "slower"
    assert finding(a_slice(), {"main": OLD}, {"main": NEW}, Rollout(slower_percent=20), 0) == (None, "")


def test_a_server_that_was_started_again_has_changed() -> None:
    again = ServerFacts("main", "old", "active", "3")
    assert (unchanged({"main": OLD}, {"main": OLD}), unchanged({"main": OLD}, {"main": again})) == (True, False)
