"""The shell that holds a host for a run: it ends with the run's connection, or after its silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from gevent.subprocess import PIPE, Popen

from roles._pyinfra import hold
from tests.roles.holding import THEIRS, Hosts


def test_a_free_host_has_no_holder_though_one_left_its_name(hosts: Hosts) -> None:
    hosts.file("one").write_text(THEIRS)
    assert hosts.holder("one") is None


def test_a_held_host_names_its_holder(hosts: Hosts) -> None:
    hosts.held("one")
    assert str(hosts.holder("one")) == "ada@desk since 2026-11-22T10:15:02Z, plan 77aa"


def test_a_lost_connection_leaves_no_process_behind(hosts: Hosts) -> None:
    shell, _ = hosts.held("one")
    shell.stdin.close()
    assert (shell.wait(), hosts.file("one").exists(), hosts.held("one")[1]) == (0, False, "mine")


def test_a_run_that_ended_leaves_its_time_on_a_host_that_is_ours(hosts: Hosts) -> None:
    hosts.ours.mkdir()
    before = uptime()
    shell, reply = hosts.held("one")
    shell.stdin.close()
    shell.wait()
    word, ended = hosts.held("one")[1].split()
    assert (reply, word) == ("mine", "mine")
    assert before <= float(ended) <= uptime()


def test_a_run_that_was_killed_leaves_no_time(hosts: Hosts) -> None:
    hosts.ours.mkdir()
    hosts.held("one")
    hosts.die()
    assert hosts.held("one")[1] == "mine"


def uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


SHORT = hold.HOLDING.replace(f"-t {hold.SILENT_SECONDS}", "-t 0.1")


def test_a_run_that_is_silent_loses_the_host(hosts: Hosts) -> None:
    assert SHORT != hold.HOLDING
    shell, _ = hosts.held("one", script=SHORT)
    assert (shell.wait(), hosts.held("one", "the next run")[1]) == (0, "mine")


def test_a_run_that_wakes_up_goes_on_if_no_other_run_came(hosts: Hosts) -> None:
    hosts.held("one", script=SHORT)[0].wait()
    assert hosts.held("one", again="again")[1] == "mine"


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_run_that_wakes_up_learns_that_another_run_came_and_went(hosts: Hosts, is_ours: bool) -> None:
    if is_ours:
        hosts.ours.mkdir()
    hosts.held("one", script=SHORT)[0].wait()
    next_run, _ = hosts.held("one", "the next run")
    assert hosts.held("one", again="again")[1] == "held the next run"
    next_run.stdin.close()
    next_run.wait()
    assert hosts.held("one", again="again")[1] == "gone"


def test_two_runs_at_the_same_moment_never_both_hold_a_host(hosts: Hosts) -> None:
    """The second run waits for a file that the first run removes at its end."""
    first, _ = hosts.held("one")
    words = ["bash", "-c", hold.HOLDING, str(hosts.file("one")), "waits", ""]
    hosts.shells.append(waiting := Popen(words, stdin=PIPE, stdout=PIPE, start_new_session=True))
    first.stdin.close()
    assert waiting.stdout.readline() == b"mine\n"
    assert hosts.held("one")[1] == "held waits"
