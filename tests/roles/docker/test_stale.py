"""Docker daemons whose settings differ from the files on disk: the role's own shell, with a stand-in of systemd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from roles.docker.facts import _started_before

SYSTEMCTL = """#!/bin/sh
case "$*" in *MainPID*) echo MainPID={pid} ;; esac
case "$*" in *ExecMainStartTimestamp*) echo 'ExecMainStartTimestamp=Sun 2026-11-22 12:00:{began} UTC' ;; esac
case "$*" in *ActiveEnterTimestamp*) echo 'ActiveEnterTimestamp=Sun 2026-11-22 12:00:30.000000 UTC' ;; esac
"""


@pytest.mark.parametrize(
    ("pid", "began", "written", "output"),
    [
        (7, "10.000000", 20.0, "stale\n"),  # started before the settings were written, and active later
        (7, "10.000000", 9.9, ""),
        (7, "10.000001", 10.0, ""),
        (7, "10.000000", 10.25, "stale\n"),
        (0, "10.000000", 20.0, ""),  # not running: the next start reads the new settings
    ],
)
def test_an_engine_process_older_than_its_settings_is_stale(
    tmp_path: Path, pid: int, began: str, written: float, output: str
) -> None:
    stub, settings = tmp_path / "systemctl", tmp_path / "daemon.json"
    stub.write_text(SYSTEMCTL.format(pid=pid, began=began))
    stub.chmod(0o755)
    settings.write_text("{}")
    noon = 1795348800  # 2026-11-22 12:00:00 UTC
    os.utime(settings, (noon + written, noon + written))
    words = ["sh", "-c", _started_before("docker.service", str(settings)) + "; true"]
    ran = subprocess.run(
        words, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == output


def test_without_settings_nothing_is_stale(tmp_path: Path) -> None:
    (tmp_path / "systemctl").write_text(SYSTEMCTL.format(pid=7, began="10.000000"))
    (tmp_path / "systemctl").chmod(0o755)
    words = ["sh", "-c", _started_before("docker.service", str(tmp_path / "none")) + "; true"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout == ""
