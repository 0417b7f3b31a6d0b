"""A host without changes is asked once, if its lock proves that no other run held it since its answers began.

The shell that holds the host is real, and so is its recorded uptime; the facts are scripted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyinfra import host

from roles._pyinfra import fact_batch, lock, quiet
from roles._pyinfra.steps import CachedFact, ask, step
from tests.roles.fake import Ran, Then, run
from tests.roles.holding import Hosts
from tests.roles.test_quiet import Lines, commands


@pytest.fixture
def ours(hosts: Hosts) -> Hosts:
    """A host of ours that an earlier run held."""
    hosts.ours.mkdir()
    ended(hosts)
    return hosts


def ended(hosts: Hosts) -> None:
    """Lets another run hold the host, and end."""
    shell, reply = hosts.held("host", "another run")
    assert reply.startswith("mine")
    shell.stdin.close()
    shell.wait()


def played(hosts: Hosts, before_lock: Callable[[], None] = lambda: None, first: Any = None, seen: Any = "a") -> Ran:
    """Runs a verb whose step changes nothing if the host answers `a`; calls `before_lock` before the lock."""

    class Client:
        def exec_command(self, command: str) -> tuple[Any, Any, Any]:
            before_lock()
            return hosts.begun(command, "host")

        def get_transport(self) -> Any:
            return None

    def verb() -> None:
        host.connector.client = Client()
        if first:
            ask(host, first)
        lock.take("5151")
        fact_batch.note(Lines, about="above")
        step(CachedFact(Lines, {"about": "here"}), lambda lines: [] if "a" in lines else ["make a"], name="First")
        quiet.recheck()
        quiet.leave_out_unchanged()

    return run(verb, answers={"is here": seen}, detect_changes=False)


ONCE = ["what is above", "what is here"]


def test_a_host_that_no_run_held_since_is_asked_once(ours: Hosts) -> None:
    ran = played(ours)
    assert (commands(ran), ran.failed_hosts, ran.changed) == (ONCE, (), ())


def test_a_host_that_no_run_held_since_its_boot_is_asked_again(hosts: Hosts) -> None:
    hosts.ours.mkdir()
    assert commands(played(hosts)) == ONCE * 2


def test_a_host_that_is_not_ours_keeps_nothing_of_a_run_and_is_asked_again(hosts: Hosts) -> None:
    ended(hosts)
    assert (hosts.file("host").exists(), commands(played(hosts))) == (False, ONCE * 2)


def test_a_change_that_a_finished_run_undid_meanwhile_is_made_again(ours: Hosts) -> None:
    ran = played(ours, lambda: ended(ours), seen=Then("a", ""))
    assert commands(ran) == ONCE * 2
    assert "make a" in [heard.command for heard in ran.shell["host"]]


def test_a_change_that_a_concurrent_run_undid_is_made_again(ours: Hosts) -> None:
    """The concurrent run held the host before this run asked, and ended before this run took the lock."""
    shell, _ = ours.held("host", "another run")

    def ends() -> None:
        shell.stdin.close()
        shell.wait()

    ran = played(ours, ends, seen=Then("a", ""))
    assert "make a" in [heard.command for heard in ran.shell["host"]]


def test_facts_are_read_again_after_an_interrupted_run(ours: Hosts) -> None:
    ours.held("host", "another run")
    ours.die()
    assert commands(played(ours)) == ONCE * 2


def test_answers_that_are_old_by_then_are_asked_again(ours: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    def passes() -> None:
        for cache in fact_batch._caches.values():
            cache._since -= fact_batch.FRESH_SECONDS

    assert commands(played(ours, passes)) == ONCE * 2


def test_a_host_without_a_time_in_its_first_answer_is_queried_again(ours: Hosts) -> None:
    """A fact asked alone has no uptime, so its answer may be older than all answers with an uptime."""
    assert commands(played(ours, first=Lines)) == ["what is there", *ONCE, *ONCE]


def test_every_command_says_when_the_host_began_to_answer() -> None:
    calls = [fact_batch.FactCall(Lines, {"about": "here"})]
    shell = ["bash", "-c", str(fact_batch.Script(calls)).replace("what is here", "echo answer")]
    uptimes = [float(Path("/proc/uptime").read_text().split()[0])]
    printed = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    uptimes.insert(1, float(printed[0].removeprefix(fact_batch.BEGAN)))
    uptimes.append(float(Path("/proc/uptime").read_text().split()[0]))
    assert uptimes == sorted(uptimes)
    assert fact_batch.Together().process(printed)[0] == ["answer"]
