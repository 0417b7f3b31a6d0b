"""The program that formats and mounts the data disk, with a table of file systems and tools of the test's own."""

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "files/base/adopt-disk"
OPTIONS = "defaults,noatime,x-systemd.before=docker.service,x-systemd.before=containerd.service,nofail"
END = "x-systemd.device-timeout=30s 0 2"
ROOT = "UUID=r-0 / ext4 errors=remount-ro 0 1"


@pytest.fixture
def told(tmp_path: Path) -> dict[str, str]:
    """Environment in which a disk formatted by us, u-1, is there; what the stubs were called with is in `calls`."""
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    said = {"blkid": 'case "$*" in *LABEL*) echo enginehouse ;; *UUID*) echo u-1 ;; esac', "mountpoint": "exit 1"}
    for name in ("blkid", "mountpoint", "mount", "systemctl", "mkfs.ext4"):
        stub = stubs / name
        stub.write_text(f'#!/bin/bash\necho {name} "$@" >>{tmp_path}/calls\n{said.get(name, "")}\n')
        stub.chmod(0o755)
    return os.environ | {"PATH": f"{stubs}:{os.environ['PATH']}", "ENGINEHOUSE_FSTAB": str(tmp_path / "fstab")}


def entry(mount: Path, uuid: str, options: str = OPTIONS) -> str:
    return f"UUID={uuid} {mount} ext4 {options},{END}"


@pytest.mark.parametrize("before", ["nothing", "as it is now", "an earlier version's", "of a disk that was replaced"])
def test_the_table_names_this_disk_once_and_keeps_what_others_wrote(
    tmp_path: Path, told: dict[str, str], before: str
) -> None:
    mount, table = tmp_path / "data", tmp_path / "fstab"
    there = {
        "nothing": [],
        "as it is now": [entry(mount, "u-1")],
        "an earlier version's": [entry(mount, "u-1", "defaults,noatime,nofail")],
        "of a disk that was replaced": [entry(mount, "u-0"), entry(mount, "u-00", "defaults,noatime,nofail")],
    }[before]
    table.write_text("\n".join([ROOT, *there]))  # without a newline at its end, as some images have it
    for _ in range(2):
        subprocess.run(["bash", PROGRAM, "/dev/some", str(mount), "ext4"], env=told, check=True)
        assert table.read_text().splitlines() == [ROOT, entry(mount, "u-1")]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.count("systemctl daemon-reload") == (before != "as it is now"), "the second time nothing is new"
    assert not any(call.startswith("mkfs") for call in calls) and f"mount {mount}" in calls


def test_what_an_administrator_made_of_the_line_stays(tmp_path: Path, told: dict[str, str]) -> None:
    mount, table = tmp_path / "data", tmp_path / "fstab"
    theirs = f"{ROOT}\nUUID=u-1 {mount} ext4 noatime,discard 0 2\n"
    table.write_text(theirs)
    subprocess.run(["bash", PROGRAM, "/dev/some", str(mount), "ext4"], env=told, check=True)
    assert table.read_text() == theirs
