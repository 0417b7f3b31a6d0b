"""The lock of a run: a second run is refused before its first change, and a dead run releases its hosts.

The shell that holds a host is real; only its place, and pyinfra's facts, are scripted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest
from pyinfra import host, state
from pyinfra.api import FactBase
from pyinfra.operations import python, server

from roles._pyinfra import boots, hold, lock
from roles._pyinfra.steps import CachedFact, step
from tests.roles.fake import Ran, run
from tests.roles.holding import THEIRS, Hosts

ROOT = Path(__file__).parents[2]


class BootId(FactBase[str]):
    """The current boot of a host."""

    default = str

    def command(self) -> str:
        """The command of `boots`."""
        return boots.BOOT_ID

    def process(self, output: list[str]) -> str:
        return output[0]


def story(hosts: Hosts, meanwhile: Callable[[], None] = lambda: None, boot: bool = False) -> Callable[[], None]:
    """A minimal verb: the lock, an event, with `boot` a reboot, a change."""

    def verb() -> None:
        name = host.name.removeprefix("@fake/")

        class Client:
            def exec_command(self, command: str) -> tuple[Any, Any, Any]:
                return hosts.begun(command, name)

            def get_transport(self) -> Any:
                return None

            def close(self) -> None:
                """Does nothing, because the next connection opens the same streams."""

        host.connector.client = Client()
        lock.take("5151")
        if name == "two":
            python.call(meanwhile, name="Meanwhile")
        if boot:
            step(CachedFact(BootId), lambda before: boots.reboot(before, 10), name="Reboot")
        server.shell("change", name="Change")

    return verb


def changes(ran: Ran) -> list[str]:
    """The hosts that were changed."""
    return [step.host for step in ran.steps if step.name == "Change" and step.commands and not step.failed]


def late() -> None:
    """Makes the hosts' last answers old."""
    for line in lock._holds.values():
        line._answered = -hold.FRESH_SECONDS


def test_a_run_locks_all_its_hosts_under_its_name(hosts: Hosts) -> None:
    seen: list[Any] = []
    ran = run(story(hosts, lambda: seen.extend(map(hosts.holder, ("one", "two")))), hosts=("one", "two"))
    assert (changes(ran), len(seen)) == (["one", "two"], 2)
    assert seen[0] == seen[1] and seen[0].plan == "5151" and "@" in seen[0].who and seen[0].since.endswith("Z")


def test_taking_the_lock_is_no_change_and_costs_one_command(hosts: Hosts) -> None:
    ran = run(story(hosts), hosts=("one",), detect_changes=False)
    assert [name for name in ran.changed if name.startswith("Lock")] == []
    assert (len(hosts.shells), [heard.command for heard in ran.shell["one"]]) == (1, ["change"])


def test_a_second_run_is_refused_before_its_first_change_on_any_host(hosts: Hosts) -> None:
    hosts.held("two")
    hosts.held("three")
    ran = run(story(hosts), hosts=("one", "two", "three"))
    assert (changes(ran), ran.failed_hosts) == ([], ("one", "three", "two"))
    report = "\n".join(ran.log)
    assert report.count("another run is changing 2 of 3 hosts") == 1, "one report, not one per host"
    assert (
        "  who    ada@desk\n"
        "  since  2026-11-22T10:15:02Z\n"
        "  run    20261122-101502-3f9c, plan 77aa\n"
        "  hosts  @fake/three, @fake/two\n"
        "  try    run again once it has ended; a dead run holds its hosts for two minutes at most\n"
        "  state  before the first change; every host serves what it served"
    ) in report


def test_two_other_runs_stand_in_one_report() -> None:
    text = str(lock.taken({"a": lock.Holder("1"), "b": lock.Holder("2")}, 2))
    assert (text.count("changing 1 of 2 hosts"), "2 problems" in text) == (2, True)


def test_a_dry_run_is_not_refused_and_notes_the_holder(hosts: Hosts) -> None:
    hosts.held("one")
    answers = {"flock -ns": f"held\n{THEIRS}"}
    ran = run(story(hosts), hosts=("one",), answers=answers, dry=True)
    assert (ran.stopped, ran.failed_hosts, len(hosts.shells)) == ("", (), 1)
    assert "held by ada@desk since 2026-11-22T10:15:02Z, plan 77aa" in str(ran.log)


def test_a_run_that_lost_the_host_to_another_stops_there(hosts: Hosts) -> None:
    def away() -> None:
        hosts.die()
        hosts.held("one")
        late()

    ran = run(story(hosts, away), hosts=("one", "two"))
    assert (changes(ran), ran.failed_hosts) == (["two"], ("one",))
    assert "another run took this host while this run was silent" in str(ran.log) and "ada@desk" in str(ran.log)


def test_a_run_with_a_dead_shell_locks_the_host_again(hosts: Hosts) -> None:
    def killed() -> None:
        hosts.die()
        late()

    ran = run(story(hosts, killed), hosts=("one", "two"))
    assert (changes(ran), ran.failed_hosts) == (["one", "two"], ())
    assert hosts.holder("one") is not None


def test_a_slow_control_machine_asks_before_it_goes_on(hosts: Hosts) -> None:
    """The machine computed for longer than an answer is valid; the host still got the keep-alive in time."""
    ran = run(story(hosts, late), hosts=("one", "two"))
    assert (changes(ran), ran.failed_hosts, len(hosts.shells)) == (["one", "two"], (), 2)


def test_a_run_renews_its_lock_repeatedly(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "RENEW_SECONDS", 0)
    renewals: list[int] = []
    say = hold.Line.say

    def counted(line: hold.Line) -> None:
        renewals.append(1)
        say(line)

    monkeypatch.setattr(hold.Line, "say", counted)

    def enough() -> None:
        while len(renewals) < 6:
            gevent.sleep(0)

    assert run(story(hosts, enough), hosts=("one", "two")).failed_hosts == ()


def test_after_its_reboot_a_host_is_held_again_by_the_same_run(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boots.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(boots, "_boot_id", lambda host: "after")
    came: list[Any] = []

    def reboot() -> None:
        two = state.inventory.get_host("@fake/two")
        before = hosts.holder("two")
        came.append(boots.wait_for_boot(state, two, "before", 10))
        came.append(hosts.holder("two") == before is not None)

    assert (run(story(hosts, reboot), hosts=("one", "two")).failed_hosts, came) == ((), [True, True])


def test_a_run_through_the_driver_s_reboot_holds_the_host_and_is_checked_after_it(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real commands of a reboot: the shell ends with the reboot, and later commands ask the new shell."""
    monkeypatch.setattr(boots.time, "sleep", lambda seconds: None)
    boot, held = ["before"], list[bool]()

    def goes_down(_: str) -> str:
        hosts.die()
        boot[0] = "after"
        return ""

    def asked_after() -> None:
        held.append(hosts.holder("one") is not None)
        hosts.die()
        hosts.held("one")
        late()

    def verb() -> None:
        story(hosts, boot=True)()
        python.call(asked_after, name="Meanwhile")
        server.shell("second", name="Second")

    answers = {"systemctl reboot": goes_down, boots.BOOT_ID: lambda _: boot[0]}
    ran = run(verb, hosts=("one",), answers=answers)
    commands = [heard.command for heard in ran.shell["one"]]
    assert (held, "change" in commands, "second" in commands) == ([True], True, False)
    assert "another run took this host while this run was silent" in str(ran.log)


def test_a_reboot_in_which_another_run_came_ends_this_one_there(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boots.time, "sleep", lambda seconds: None)
    came: list[Any] = []

    def boot_id(host: Any) -> str:
        hosts.held("two")
        return "after"

    monkeypatch.setattr(boots, "_boot_id", boot_id)

    def reboot() -> None:
        came.append(boots.wait_for_boot(state, state.inventory.get_host("@fake/two"), "before", 10))

    ran = run(story(hosts, reboot), hosts=("one", "two"))
    assert came == [False] and "ada@desk" in str(ran.log)


def test_a_host_that_opens_no_second_session_is_not_changed(hosts: Hosts) -> None:
    def verb() -> None:
        class Client:
            def exec_command(self, command: str) -> None:
                raise hold.SSHException("Administratively prohibited")

        host.connector.client = Client()
        lock.take("5151")
        server.shell("change", name="Change")

    ran = run(verb, hosts=("one",))
    assert (changes(ran), "MaxSessions" in str(ran.log)) == ([], True)


VERB = """
import sys
sys.path.insert(0, {root!r})
import roles._pyinfra.hold, roles._pyinfra.lock
from pyinfra.operations import server
roles._pyinfra.hold.FILE = roles._pyinfra.lock.FILE = {file!r}
roles._pyinfra.hold.HOLDING = roles._pyinfra.hold.HOLDING.replace("-w 5", "-w 2")
roles._pyinfra.lock.take("5151")
server.shell("echo at work; cat {work}", name="Work")
"""


def test_a_killed_control_process_releases_its_hosts_at_once(tmp_path: Path) -> None:
    """The test runs pyinfra itself, on this machine."""
    verb, work = tmp_path / "verb.py", tmp_path / "work"
    verb.write_text(VERB.format(root=str(ROOT), file=str(tmp_path / "lock"), work=work))
    words = [sys.executable, "-m", "pyinfra", "@local", str(verb), "-y", "-vvv"]
    os.mkfifo(work)
    waits = os.open(work, os.O_RDWR)  # the pipe that `cat` waits for
    first = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert first.stdout is not None and any("at work" in line for line in first.stdout)
    second = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first.kill()
    first.communicate()
    os.close(waits)
    work.unlink()
    work.touch()
    third = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (second.returncode, third.returncode) == (1, 0), second.stdout + third.stdout
    assert "another run is changing 1 of 1 hosts" in second.stdout and "at work\n" not in second.stdout
