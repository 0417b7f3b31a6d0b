"""The time line of a rollout: the balancer's events, and the events of a run that a gate stopped."""

from __future__ import annotations

from tests.rollouts.scene import gate_lines
from tests.rollouts.timeline import Event, Timeline, states

EXPOSITION = """\
haproxy_server_status{proxy="pool0_http",server="h1.main",state="DOWN"} 0
haproxy_server_status{proxy="pool0_http",server="h1.main",state="UP"} 1
haproxy_server_status{proxy="pool0_grpc",server="h1.main",state="UP"} 1
haproxy_server_status{proxy="pool0_http",server="h2.main",state="UP"} 1
haproxy_server_status{proxy="pool0_grpc",server="h2.main",state="DRAIN"} 1
haproxy_server_status{proxy="pool1_http",server="h3.main",state="UP"} 1
haproxy_backend_status{proxy="pool0_http",state="UP"} 1
"""
OUTPUT = """\
--> Starting operation: Gate | Wave 1 of 3
    [h1] main: main-2 does not serve; main-1 is put back and serves
    [h1] main: minilm does not load
    [h1] main:   | a line of its log
    [h2] the gate failed: 1 of 1 hosts are lost
    [h3] the gate failed: 1 of 1 hosts are lost
    [h2]   lost    h1
    [h2] Error: command failed
    [h2]   more
"""


def watch(*seen: tuple[str, str]) -> Timeline:
    """A time line after these changes of hosts' states."""
    events: list[Event] = []
    timeline = Timeline("", "pool0", lambda: {"right": 1, "lost": 0, "cut": 0}, events.append)
    for host, state in seen:
        timeline.now[host] = state
        timeline.note(host=host, state=state)
    assert timeline.events == events
    return timeline


def test_a_host_is_as_the_worse_of_its_two_protocols() -> None:
    assert states(EXPOSITION, "pool0") == {"h1": "UP", "h2": "DRAIN"}


def test_the_least_number_of_hosts_in_counts_once_all_are_known() -> None:
    line = watch(("balancer", "answers"), ("h1", "UP"), ("h2", "UP"), ("h3", "UP"), ("h2", "DRAIN"), ("h2", "UP"))
    assert (line.least_in(), line.seen("h2")) == (2, ["UP", "DRAIN", "UP"])


def test_a_host_is_out_from_its_drain_until_it_is_up_again() -> None:
    line = watch(("h1", "UP"), ("h2", "UP"), ("h2", "DRAIN"), ("h2", "DOWN"), ("h2", "UP"), ("h1", "DRAIN"))
    for seconds, event in enumerate(line.events):
        event["seconds"] = 1.5 * seconds
    assert line.seconds_out() == {"h2": 3.0}


def test_the_lines_of_a_gate_follow_the_lines_of_the_lost_host() -> None:
    assert gate_lines(OUTPUT) == [
        "h1: main: main-2 does not serve; main-1 is put back and serves",
        "h1: main: minilm does not load",
        "the gate failed: 1 of 1 hosts are lost",
        "  lost    h1",
    ]


def test_a_run_that_no_gate_stopped_has_no_lines_of_a_gate() -> None:
    assert gate_lines("    [h1] all is well\n") == []
