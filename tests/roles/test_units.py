"""Following a unit: progress as it arrives, the last messages of a failure, and a limited wait."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from roles._pyinfra.steps import CachedFact, step
from roles._shipping import units
from roles._shipping.texts import InstalledTexts
from roles._shipping.units import Follow, UnitState
from tests.roles.fake import Answer, Ran, Then, run


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes time pass only at a test's command."""
    monkeypatch.setattr(units.gevent, "sleep", lambda seconds: None)


def follow(*states: Answer, seconds: int = 60) -> Ran:
    """A run that follows a unit with these states, one after the other."""

    def wait(_: dict[str, str]) -> Iterator[Follow]:
        yield Follow("work.service", "image", seconds)

    story = lambda: step(CachedFact(InstalledTexts, {"paths": ("/a",)}), wait, name="Wait")  # noqa: E731
    return run(story, answers={"systemctl show": Then(*states), "journalctl": "the last words"})


def test_progress_is_reported_once_per_change() -> None:
    going = "ActiveState=activating\nStatusText=1 of 2 MiB"
    ran = follow(going, going, "ActiveState=activating\nStatusText=2 of 2 MiB", "ActiveState=inactive\nResult=success")
    assert [line for line in ran.log if "image:" in line] == [
        "[@fake/host] image: 1 of 2 MiB",
        "[@fake/host] image: 2 of 2 MiB",
    ]


def test_a_unit_of_which_systemd_says_nothing_has_not_ended() -> None:
    """systemd does not answer while it re-executes itself, as during its upgrade."""
    ran = follow("", "", "ActiveState=failed\nResult=exit-code")
    assert ran.failed_hosts == ("host",)


def test_a_hanging_host_has_given_no_answer() -> None:
    """pyinfra raises so after a command's time limit."""

    def hangs(_: str) -> str:
        raise TimeoutError

    ran = follow(hangs, "ActiveState=inactive\nResult=success")
    assert ran.failed_hosts == ()
    assert {heard.seconds for heard in ran.shell["host"] if "systemctl show" in heard.command} == {120}


@pytest.mark.parametrize("ended", ["MainPID={}\\nControlPID=0", "MainPID=0\\nControlPID={}"])
def test_a_question_that_waits_is_answered_when_the_units_process_ends(tmp_path: Path, ended: str) -> None:
    """The limit of ten minutes would outlast this test's."""
    process = subprocess.Popen(["true"])
    process.wait()
    systemctl = tmp_path / "systemctl"
    answer = f"printf '{ended.format(process.pid)}\\n' ;; *) echo ActiveState=inactive ;; esac"
    systemctl.write_text(f"#!/bin/sh\ncase $* in *MainPID*) {answer}\n")
    systemctl.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["sh", "-c", units.ask_later("work.service", 600)]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert UnitState.of(ran.stdout.splitlines()).active == "inactive"


def test_a_unit_that_is_queued_has_not_ended() -> None:
    ran = follow("ActiveState=inactive\nJob=12", "ActiveState=failed\nResult=exit-code")
    assert ran.failed_hosts == ("host",)


def test_a_failed_unit_shows_its_last_log_lines() -> None:
    assert "[@fake/host] the last words" in follow("ActiveState=failed\nResult=exit-code\nInvocationID=1").log


def test_a_killed_unit_is_reported_by_systemds_result() -> None:
    log = follow("ActiveState=failed\nResult=signal\nInvocationID=1").log
    assert [line for line in log if "was ended" in line or "state" in line] == [
        "[@fake/host] image: work.service was ended by another program or a person (signal)",
        "[@fake/host]   state   no serving program was changed; the next run continues from the present state",
    ]


def test_a_unit_that_ended_well_is_no_failure() -> None:
    assert follow("ActiveState=inactive\nResult=success").failed_hosts == ()


def test_a_unit_that_takes_too_long_goes_on_without_us() -> None:
    ran = follow("ActiveState=activating", seconds=0)
    assert [line for line in ran.log if "it continues; a second run" in line] == [
        "[@fake/host] image: work.service still runs after 0 s; it continues; a second run attaches"
    ]


def test_an_unknown_unit_is_inactive() -> None:
    assert UnitState.of([]) == UnitState(active="inactive", result="success")
