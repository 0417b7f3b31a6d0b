"""The program that formats and mounts the data disk, with a table of file systems and stand-ins of tools."""

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "files/shell/adopt-disk"
OPTIONS = "defaults,noatime,x-systemd.before=docker.service,x-systemd.before=containerd.service,nofail"
END = "x-systemd.device-timeout=30s 0 2"
ROOT = "UUID=r-0 / ext4 errors=remount-ro 0 1"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment with a disk u-1 that we formatted; the stand-ins' calls are in `calls`."""
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "ENGINEHOUSE_FSTAB": str(tmp_path / "fstab"),
    }
    stub(tmp_path, blkid='case "$*" in *LABEL*) echo enginehouse ;; *UUID*) echo u-1 ;; esac', mountpoint="exit 1")
    stub(tmp_path, lsblk="echo 8:16", findmnt="echo 8:16", mount="", systemctl="", udevadm="", **{"mkfs.ext4": ""})
    return environment | {"LC_ALL": "C.UTF-8"}


def stub(directory: Path, **scripts: str) -> None:
    """Programs that take the place of the real ones."""
    for name, script in scripts.items():
        (directory / name).write_text(f'#!/bin/bash\necho {name} "$@" >>{directory}/calls\n{script}\n')
        (directory / name).chmod(0o755)


def adopt(mount: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = ["bash", str(PROGRAM), "/dev/some", str(mount), "ext4"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def acted(directory: Path) -> list[str]:
    """Calls of programs that change the host."""
    calls = (directory / "calls").read_text().splitlines()
    return [call for call in calls if call.split()[0] in ("mkfs.ext4", "mount", "systemctl")]


def entry(mount: Path, uuid: str, options: str = OPTIONS) -> str:
    return f"UUID={uuid} {mount} ext4 {options},{END}"


@pytest.mark.parametrize("before", ["nothing", "as it is now", "an earlier version's", "of a disk that was replaced"])
def test_fstab_has_this_disk_once_and_keeps_foreign_lines(
    tmp_path: Path, environment: dict[str, str], before: str
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
        assert adopt(mount, environment).returncode == 0
        assert table.read_text().splitlines() == [ROOT, entry(mount, "u-1")]
    changed = ["systemctl daemon-reload"] * (before != "as it is now")
    assert acted(tmp_path) == [*changed, f"mount {mount}", f"mount {mount}"], "the second time nothing is new"


@pytest.mark.parametrize("line", ["UUID=u-1 {} ext4 noatime,discard 0 2", 'UUID="u-1"\t{}\text4\tdefaults',
                                  "/dev/some {} ext4 defaults 0 2", "LABEL=enginehouse {} ext4 defaults"])  # fmt: skip
def test_an_administrator_s_edit_of_the_line_stays(tmp_path: Path, environment: dict[str, str], line: str) -> None:
    theirs = f"{ROOT}\n{line.format(tmp_path / 'data')}\n"
    (tmp_path / "fstab").write_text(theirs)
    assert adopt(tmp_path / "data", environment).returncode == 0
    assert (tmp_path / "fstab").read_text() == theirs


@pytest.mark.parametrize("is_blank", [True, False])
@pytest.mark.parametrize("line", ["/dev/sdb1 {} ext4 defaults 0 2", "LABEL=data\t{}\text4 defaults 0 2",
                                  f"UUID=u-0 {{}} ext4 defaults,noatime,discard,nofail,{END}"])  # fmt: skip
def test_a_line_that_mounts_another_disk_there_is_refused_before_anything_is_formatted(
    tmp_path: Path, environment: dict[str, str], line: str, is_blank: bool
) -> None:
    """mount and systemd use a mount's first line: with ours after it, one disk is formatted and another mounted."""
    if is_blank:
        stub(tmp_path, blkid="exit 2", wipefs="", lsblk='case "$*" in *NAME*) echo some ;; esac')
    theirs = f"{ROOT}\n{line.format(tmp_path / 'data')}\n"
    (tmp_path / "fstab").write_text(theirs)
    ran = adopt(tmp_path / "data", environment)
    assert (ran.returncode, (tmp_path / "fstab").read_text(), acted(tmp_path)) == (4, theirs, [])
    assert line.format(tmp_path / "data").split()[0] in ran.stderr


def test_lines_that_no_locale_reads_stay(tmp_path: Path, environment: dict[str, str]) -> None:
    there = ROOT.encode() + b"\n# f\xfcr K\xf6ln\n//nas/\xf6 /mnt cifs ro 0 0\n# \0\nUUID=s none swap sw 0 0\n"
    (tmp_path / "fstab").write_bytes(there)
    assert adopt(tmp_path / "data", environment).returncode == 0
    assert (tmp_path / "fstab").read_bytes() == there + f"{entry(tmp_path / 'data', 'u-1')}\n".encode()


def test_a_table_that_cannot_be_read_is_not_written_anew(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "fstab").write_text(f"{ROOT}\n")
    stub(tmp_path, grep="exit 2", blkid="exit 2", wipefs="", lsblk='case "$*" in *NAME*) echo some ;; esac')
    assert adopt(tmp_path / "data", environment).returncode == 1
    assert ((tmp_path / "fstab").read_text(), acted(tmp_path)) == (f"{ROOT}\n", [])


def test_a_mount_of_another_disk_stops_every_change(tmp_path: Path, environment: dict[str, str]) -> None:
    stub(tmp_path, mountpoint="", findmnt="echo 8:32", blkid="exit 2", wipefs="")
    (tmp_path / "fstab").write_text(f"{ROOT}\n")
    ran = adopt(tmp_path / "data", environment)
    assert (ran.returncode, ran.stderr) == (
        5,
        f"{tmp_path / 'data'} is another disk, not /dev/some; nothing was done\n",
    )
    assert ((tmp_path / "fstab").read_text(), acted(tmp_path)) == (f"{ROOT}\n", [])


def test_a_mount_that_brings_another_disk_is_an_error(tmp_path: Path, environment: dict[str, str]) -> None:
    stub(tmp_path, mountpoint=f"[ -e {tmp_path}/up ]", mount=f"touch {tmp_path}/up", findmnt="echo 8:32")
    ran = adopt(tmp_path / "data", environment)
    assert (ran.returncode, "is another disk" in ran.stderr) == (5, True)


@pytest.mark.parametrize("looks", [{"wipefs": "exit 1"}, {"blkid": "exit 8"}, {"blkid": "exit 0"},
                                   {"wipefs": "echo 0x438 ext4"}, {"lsblk": "echo some; echo some1"}])  # fmt: skip
def test_a_disk_that_cannot_be_read_is_not_blank(
    tmp_path: Path, environment: dict[str, str], looks: dict[str, str]
) -> None:
    blank = {"blkid": "exit 2", "wipefs": "", "lsblk": 'case "$*" in *NAME*) echo some ;; esac'}
    stub(tmp_path, **(blank | looks))
    ran = adopt(tmp_path / "data", environment)
    assert (ran.returncode, acted(tmp_path)) == (3, []) and ran.stderr.startswith("/dev/some is not blank")
