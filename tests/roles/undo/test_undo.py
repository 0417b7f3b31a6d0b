"""The dead man's switch as a program, in a separate directory; systemd's part is tested on a machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ask = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = Path(__file__).parents[3] / "files/host"


@pytest.fixture
def undo(tmp_path: Path) -> Ask:
    """Runs a verb; its saved files are under `tmp_path`/undo."""

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"ENGINEHOUSE_UNDO": str(tmp_path / "undo"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(
            [sys.executable, str(PROGRAM), "undo", *words], env=environment, capture_output=True, text=True
        )

    script(tmp_path / "systemctl", "")
    script(tmp_path / "systemd-run", f'echo "$*" >>{tmp_path}/timers')
    return ask


def script(path: Path, line: str) -> None:
    """A stand-in for one of systemd's commands."""
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_a_changed_file_is_put_back_with_its_mode(undo: Ask, tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("old")
    file.chmod(0o640)
    undo("save", "docker", str(file))
    file.write_text("new")
    file.chmod(0o644)
    undo("back", "docker")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("old", 0o640)


def test_a_file_that_was_not_there_is_removed(undo: Ask, tmp_path: Path) -> None:
    file = tmp_path / "firewall.nft"
    undo("save", "firewall", str(file))
    file.write_text("new")
    undo("back", "firewall")
    assert not file.exists()


def test_the_commands_run_after_the_files_are_back(undo: Ask, tmp_path: Path) -> None:
    file, seen = tmp_path / "x", tmp_path / "seen"
    file.write_text("old")
    undo("save", "x", "--after", f"cp {file} {seen}", str(file))
    file.write_text("new")
    undo("back", "x")
    assert seen.read_text() == "old"


def test_a_failed_rollback_command_is_recorded_and_the_others_run(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", "--after", "echo broken >&2; false", "--after", f"touch {tmp_path}/ran", str(tmp_path / "x"))
    undo("back", "x")
    record = json.loads((tmp_path / "undo/x.taken-back.json").read_text())
    assert (record["said"], (tmp_path / "ran").exists()) == (["echo broken >&2; false: broken"], True)


def test_a_confirmed_change_stays(undo: Ask, tmp_path: Path) -> None:
    file = tmp_path / "x"
    undo("save", "x", str(file))
    file.write_text("new")
    assert undo("confirm", "x").returncode == 0
    undo("boot")
    assert file.read_text() == "new"


def test_an_undone_change_cannot_be_confirmed(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", str(tmp_path / "x"))
    undo("back", "x")
    assert undo("confirm", "x").returncode == 1


def test_the_older_copy_of_an_unconfirmed_change_stays(undo: Ask, tmp_path: Path) -> None:
    file = tmp_path / "x"
    for content in ("confirmed", "first change", "second change"):
        file.write_text(content)
        undo("save", "x", str(file))
    undo("back", "x")
    assert file.read_text() == "confirmed"


def test_a_boot_takes_back_everything_unconfirmed_without_the_commands(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", "--after", f"touch {tmp_path}/ran", str(tmp_path / "x"))
    (tmp_path / "x").write_text("new")
    undo("boot")
    assert [path.name for path in (tmp_path / "x", tmp_path / "ran") if path.exists()] == []


def test_a_change_is_watched_for_the_latest_given_time(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", str(tmp_path / "x"))
    assert [undo("watch", "x", seconds).returncode for seconds in ("320", "20")] == [0, 0]
    timers = (tmp_path / "timers").read_text().splitlines()
    assert [word for line in timers for word in line.split() if word.startswith("--on-active")] == [
        "--on-active=320",
        "--on-active=20",
    ]


def test_a_login_before_the_change_is_in_force_confirms_nothing(undo: Ask, tmp_path: Path) -> None:
    """The connection broke while Docker was still stopping."""
    file = tmp_path / "x"
    undo("save", "x", str(file))
    file.write_text("new")
    undo("watch", "--making", "x", "320")
    early = undo("confirm", "x")
    undo("watch", "x", "20")
    assert (early.returncode, undo("confirm", "x").returncode) == (1, 0)
    assert "the change is still being made" in early.stderr


def test_a_change_reverted_while_it_is_made_is_not_watched(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", str(tmp_path / "x"))
    undo("back", "x")
    ended = undo("watch", "x", "20")
    assert (ended.returncode, "was reverted; run again" in ended.stderr) == (1, True)


def test_a_change_that_no_timer_watches_is_taken_back_at_once(undo: Ask, tmp_path: Path) -> None:
    """The earlier timer has been stopped by then."""
    file = tmp_path / "x"
    file.write_text("old")
    undo("save", "x", str(file))
    file.write_text("new")
    script(tmp_path / "systemd-run", "exit 1")
    ended = undo("watch", "x", "20")
    assert (ended.returncode, file.read_text()) == (1, "old")
    assert "no timer, so the change was reverted" in ended.stderr
