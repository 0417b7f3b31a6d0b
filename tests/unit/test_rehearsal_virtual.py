"""Machines with a separate kernel: the decisions before QEMU starts."""

from __future__ import annotations

import json
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rehearsal import disk, qemu, rootfs
from rehearsal.places import RehearsalRefused

RECORD = {
    "name": "q12a",
    "number": 7,
    "address": "10.213.7.10",
    "base": "/cache/disk-12-abc",
    "machine_id": "0" * 32,
}


def test_its_disk_keeps_only_flushed_writes() -> None:
    drives = [word for word in qemu.arguments(Path("/m"), RECORD, "tcg") if word.startswith("file=/m/disk")]
    assert drives == ["file=/m/disk.qcow2,if=virtio,format=qcow2,cache=writeback,id=disk"]


def test_its_name_and_machine_id_are_known_before_any_disk_is_read() -> None:
    words = qemu.arguments(Path("/m"), RECORD, "tcg")
    assert f"systemd.hostname=q12a systemd.machine_id={'0' * 32}" in words[words.index("-append") + 1]


def test_it_sits_on_the_rehearsals_bridge_by_the_same_cable_name_as_the_other_kind() -> None:
    words = qemu.arguments(Path("/m"), RECORD, "kvm")
    assert "tap,id=cable,ifname=vb-r7-q12a,script=no,downscript=no" in words


@pytest.mark.parametrize(("boots", "chosen"), [(True, "kvm"), (False, "tcg")])
def test_acceleration_is_used_only_where_a_kernel_speaks_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, boots: bool, chosen: str
) -> None:
    """In the test /dev/kvm exists, but a machine that uses it hangs before its first output."""
    monkeypatch.setenv("ENGINEHOUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(qemu, "_boots", lambda accelerator, base: boots)
    monkeypatch.setattr(qemu, "KVM", tmp_path)
    assert qemu.best_accelerator(disk.BaseDisk(tmp_path)) == chosen


def test_the_verdict_of_a_trial_is_remembered_until_the_outer_machine_boots_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trials: list[str] = []
    monkeypatch.setenv("ENGINEHOUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(qemu, "KVM", tmp_path)
    monkeypatch.setattr(qemu, "_boots", lambda accelerator, base: bool(trials.append(accelerator)))
    assert [qemu.best_accelerator(disk.BaseDisk(tmp_path)) for _ in range(2)] == ["tcg", "tcg"]
    assert trials == ["kvm"]


def test_qemu_is_called_over_qmp_and_its_refusal_reported(tmp_path: Path) -> None:
    heard: list[str] = []

    def answer(line: socket.socket) -> None:
        connection, _ = line.accept()
        with connection, connection.makefile("rw") as stream:
            for reply in ('{"QMP": {}}', '{"return": {}}\n{"event": "STOP"}', '{"error": {"desc": "no disk"}}'):
                stream.write(reply + "\n")
                stream.flush()
                heard.append(stream.readline())

    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "qmp"))
        line.listen()
        with ThreadPoolExecutor() as pool:
            pool.submit(answer, line)
            with pytest.raises(RehearsalRefused, match="QEMU does not block_set_io_throttle: no disk"):
                qemu.ask(tmp_path, "block_set_io_throttle", device="disk", bps=1)
    assert json.loads(heard[1]) == {"execute": "block_set_io_throttle", "arguments": {"device": "disk", "bps": 1}}


def test_a_machine_is_over_when_nothing_of_its_process_is_left() -> None:
    process = subprocess.Popen(["sleep", "60"])
    before = qemu._is_over(process.pid)
    process.kill()
    process.wait()
    assert (before, qemu._is_over(process.pid)) == (False, True)


def test_trees_of_one_debian_for_both_kinds_may_be_made_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While one lane bootstraps the disk's tree, another needs the other kind; its cleanup must keep our settings."""
    seen: list[bool] = []

    run = subprocess.run

    def bootstrap(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if words[0] != "mmdebstrap":
            return run(words, **options)
        settings = next(Path(word.partition("=")[2]) for word in words if word.startswith("--aptopt="))
        if len(seen) == 0:
            seen.append(settings.exists())
            rootfs.root_file_system("13")
        seen.append(settings.exists())
        Path(words[-2]).mkdir()
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setenv("ENGINEHOUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(rootfs.subprocess, "run", bootstrap)
    monkeypatch.setattr(rootfs, "_finish", lambda *_: None)
    (tmp_path / "rehearsal").mkdir()
    rootfs.make_tree("13", tmp_path / "tree", tmp_path / "log")
    assert seen == [True, True, True]
