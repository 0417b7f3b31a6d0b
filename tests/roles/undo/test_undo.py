"""The dead man's switch as a program, in a directory of its own; systemd's part is tested on a machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ask = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = Path(__file__).parents[3] / "files/undo/undo.py"


@pytest.fixture
def undo(tmp_path: Path) -> Ask:
    """Runs a verb; what it keeps is under `tmp_path`/undo."""

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"ENGINEHOUSE_UNDO": str(tmp_path / "undo"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run([sys.executable, str(PROGRAM), *words], env=environment, capture_output=True, text=True)

    (tmp_path / "systemctl").write_text("#!/bin/sh\n")
    (tmp_path / "systemctl").chmod(0o755)
    return ask


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


def test_a_command_that_ends_badly_is_told_and_the_others_run(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", "--after", "echo broken >&2; false", "--after", f"touch {tmp_path}/ran", str(tmp_path / "x"))
    undo("back", "x")
    told = json.loads((tmp_path / "undo/x.taken-back.json").read_text())
    assert (told["said"], (tmp_path / "ran").exists()) == (["echo broken >&2; false: broken"], True)


def test_what_is_confirmed_stays(undo: Ask, tmp_path: Path) -> None:
    file = tmp_path / "x"
    undo("save", "x", str(file))
    file.write_text("new")
    assert undo("confirm", "x").returncode == 0
    undo("boot")
    assert file.read_text() == "new"


def test_what_was_taken_back_cannot_be_confirmed(undo: Ask, tmp_path: Path) -> None:
    undo("save", "x", str(tmp_path / "x"))
    undo("back", "x")
    assert undo("confirm", "x").returncode == 1


def test_the_older_copy_stays_where_nobody_confirmed(undo: Ask, tmp_path: Path) -> None:
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
