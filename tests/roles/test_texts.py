"""Files that a role needs: the question to the host, and the remedy if systemd has not read a unit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from roles._shipping.texts import UNREAD, InstalledTexts, Text, loaded_as, put

UNIT = Text("/etc/systemd/system/triton@.service", "[Unit]\n")


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("triton@.service", "triton@*.service"),
        ("triton@main.service.d/enginehouse.conf", "triton@main.service"),
        ("enginehouse-swap@.service.d/52-enginehouse-gate.conf", "enginehouse-swap@*.service"),
        ("enginehouse-gpu-state.timer", "enginehouse-gpu-state.timer"),
    ],
)
def test_a_file_is_looked_up_under_the_units_systemd_loads_it_for(path: str, unit: str) -> None:
    assert loaded_as(f"/etc/systemd/system/{path}") == unit


def test_systemd_is_not_queried_on_a_host_without_units() -> None:
    assert "systemctl" not in InstalledTexts().command(("/etc/enginehouse/watch.json",))


def test_two_processes_tell_of_all_files_and_of_nothing_else(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a b", "deep" + str(tmp_path) + "/x", "x", "a directory", "not there")]
    for path, content in zip(paths, ("1", "2", "3"), strict=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    paths[2].chmod(0o600)
    paths[3].mkdir()
    ran = subprocess.run(["sh", "-c", InstalledTexts().command(tuple(map(str, paths)))], capture_output=True, text=True)
    wanted = [Text(str(path), path.read_text(), mode) for path, mode in zip(paths, ("644", "644", "600"), strict=False)]
    seen = InstalledTexts().process(ran.stdout.splitlines())
    assert (ran.returncode, seen) == (0, {text.path: text.wanted_fact for text in wanted})


@pytest.mark.parametrize(("needs", "seen"), [("yes", {UNREAD: "due - -"}), ("no", {})])
def test_systemd_is_asked_whether_it_has_read_them(tmp_path: Path, needs: str, seen: dict[str, str]) -> None:
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho NeedDaemonReload=no\necho NeedDaemonReload={needs}\n")
    (tmp_path / "systemctl").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = InstalledTexts().command((f"{UNIT.path}.not-there",))
    ran = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert InstalledTexts().process(ran.stdout.splitlines()) == seen


def test_a_unit_that_is_right_on_disk_and_unread_is_reloaded() -> None:
    seen = {UNIT.path: UNIT.wanted_fact}
    assert [list(map(str, put([UNIT], digests))) for digests in (seen, seen | {UNREAD: "due - -"})] == [
        [],
        ["systemctl daemon-reload"],
    ]
