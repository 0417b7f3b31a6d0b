"""patient-apt repairs interrupted work, and waits for a running dpkg; dpkg and apt-get are scripted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PATIENT_APT = Path(__file__).parents[3] / "files/shell/patient-apt"
LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 812"
LOCKED_BY_NAME = "dpkg: error: dpkg frontend lock was locked by /usr/bin/apt-get process with pid 812"
"""dpkg 1.22's message (Debian 13), as seen; the other is that of 1.21 (Debian 12, Ubuntu 22.04)."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the programs, and a non-empty journal of dpkg."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal/0001").touch()
    script(tmp_path / "apt-get", f'echo "apt-get $*" >>{tmp_path}/said')
    script(tmp_path / "sleep", "exit 0")
    return tmp_path


def script(path: Path, text: str) -> None:
    """Writes an executable."""
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def package(path: Path) -> None:
    """Writes an archive as dpkg-deb makes it."""
    root = path.parent / f"{path.stem}-root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text("Package: a\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n")
    (root / "content").write_bytes(bytes(range(256)) * 400)
    subprocess.run(["dpkg-deb", "--build", "-Zxz", root, path], check=True, capture_output=True)


def install(machine: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    """`patient-apt install rsync` with a time limit."""
    more = {"PATH": f"{machine}:/usr/bin:/bin", "ENGINEHOUSE_DPKG_JOURNAL": str(machine / "journal")}
    more |= {"ENGINEHOUSE_APT_ARCHIVES": str(machine / "archives")}
    more |= {"ENGINEHOUSE_APT_STAMP": str(machine / "stamp"), "ENGINEHOUSE_APT_WAIT_SECONDS": str(seconds)}
    return subprocess.run([PATIENT_APT, "install", "rsync"], env={**os.environ, **more}, capture_output=True, text=True)


def test_an_installation_that_was_cut_off_is_finished_first(machine: Path) -> None:
    script(machine / "dpkg", f'echo "dpkg $1" >>{machine}/said; rm -f {machine}/journal/*')
    assert install(machine, 900).returncode == 0
    calls = (machine / "said").read_text().splitlines()
    assert [line.split()[0] for line in calls][-2:] == ["dpkg", "apt-get"]


@pytest.mark.parametrize("locked", [LOCKED, LOCKED_BY_NAME])
def test_a_dpkg_at_work_is_waited_for(machine: Path, locked: str) -> None:
    once = f"[ -e {machine}/once ] && rm -f {machine}/journal/* && exit; touch {machine}/once"
    script(machine / "dpkg", f"{once}; echo '{locked}' >&2; exit 2")
    assert install(machine, 900).returncode == 0
    assert "install rsync" in (machine / "said").read_text()


def test_waiting_ends_with_the_message_of_dpkg(machine: Path) -> None:
    script(machine / "dpkg", f"echo '{LOCKED}' >&2; exit 2")
    done = install(machine, 0)
    assert (done.returncode, done.stderr.strip()) == (2, LOCKED)


def test_other_errors_of_dpkg_are_reported_at_once(machine: Path) -> None:
    script(machine / "dpkg", "echo 'dpkg: error processing package foo' >&2; exit 1")
    done = install(machine, 900)
    assert (done.returncode, done.stderr.strip()) == (1, "dpkg: error processing package foo")


def test_archives_that_lost_bytes_are_removed_and_fetched_once_more(machine: Path) -> None:
    """apt itself accepts a complete archive by its size alone, and resumes a partial archive."""
    script(machine / "dpkg", f"rm -f {machine}/journal/*")
    archives = machine / "archives"
    (archives / "partial").mkdir(parents=True)
    for name in ("whole.deb", "flipped.deb"):
        package(archives / name)
    content = bytearray((archives / "flipped.deb").read_bytes())
    content[-200] ^= 1
    (archives / "flipped.deb").write_bytes(content)
    (archives / "partial/refused.deb.FAILED").touch()
    (archives / "partial/begun.deb").touch()
    script(
        machine / "apt-get", f'echo "apt-get $*" >>{machine}/said; [[ $* != *install* || ! -e {archives}/flipped.deb ]]'
    )
    assert install(machine, 900).returncode == 0
    calls = [line for line in (machine / "said").read_text().splitlines() if line.endswith("install rsync")]
    assert len(calls) == 2
    left = sorted(str(path.relative_to(archives)) for path in archives.rglob("*.deb*"))
    assert left == ["partial/begun.deb", "whole.deb"]


def test_an_installation_that_fails_with_whole_archives_is_not_tried_again(machine: Path) -> None:
    script(machine / "dpkg", f"rm -f {machine}/journal/*")
    script(machine / "apt-get", f'echo "apt-get $*" >>{machine}/said; [[ $* != *install* ]] || exit 100')
    assert install(machine, 900).returncode == 100
    assert (machine / "said").read_text().count("install rsync") == 1
