"""A disk that is full, read-only, or slow."""

from __future__ import annotations

import os

from rehearsal import cgroups, qemu
from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine

DATA = "/var/lib/enginehouse"
UNDER = "/run/rehearsal-under"
"""Path below which a directory hidden by a small file system can still be reached."""
WRITTEN = "/etc /usr/local /var/lib"
BALLAST = f"{DATA}/.rehearsal-ballast"


class FullDisk(Fault):
    """Fills the disk of a machine that has its own. A machine without its own disk uses the outer machine's, so a
    small file system with the same content covers the data directory."""

    name = "full-disk"
    summary = "the data disk is full in the middle of a transfer"
    finds = ("disk-full",)
    happens = "the transfer fails; no partial files are published, and the service continues"
    says = "No space left on device"
    then = "free space and run again: the transfer resumes"
    moment = "Model store | Send"

    def __init__(self, room_mib: int = 1) -> None:
        self.room_mib = room_mib

    def apply(self, machine: Machine) -> None:
        if machine.kind == "qemu":
            free = f"$(( $(df --output=avail -BM {DATA} | tail -n 1 | tr -d ' M') - {self.room_mib} ))M"
            machine.run(f"fallocate -l {free} {BALLAST}")
            return
        machine.run(
            f"set -e; mkdir -p {UNDER} {DATA}; mount --bind {DATA} {UNDER};"
            f" mount --make-private {UNDER};"
            f" mount -t tmpfs -o size=20g,mode=755 rehearsal-disk {DATA};"
            # 24: a file vanished during the copy, because timers of the host write at the same time.
            f" rsync -a {UNDER}/ {DATA}/ || [ $? = 24 ];"
            f" mount -o remount,size=$(( $(df --output=used -k {DATA} | tail -n 1) + {self.room_mib} * 1024 ))k {DATA}"
        )

    def undo(self, machine: Machine) -> None:
        machine.run(
            f"rm -f {BALLAST}; ! mountpoint -q {UNDER} || {{ mount -o remount,size=20g {DATA};"
            # Files written meanwhile are kept, as on a disk that was enlarged.
            f" {{ rsync -a --delete {DATA}/ {UNDER}/ || [ $? = 24 ]; }} && umount -l {DATA} && umount -l {UNDER}; }}"
        )


class ReadOnly(Fault):
    """Makes the file system read-only, as after one of its errors: files can be read, but not written."""

    name = "read-only"
    summary = "the root file system became read-only"
    finds = ("read-only",)
    happens = "refused before the first change; the service continues"
    says = "a file system is read-only"
    then = "find the cause (dmesg), reboot or repair the disk, run again"

    def apply(self, machine: Machine) -> None:
        if machine.kind == "qemu":
            machine.run("echo u >/proc/sysrq-trigger")
            return
        # A machine without its own kernel always has open files on its root, so only the directories of a run become
        # read-only, with the disks mounted in them. The mounts are private, or `undo` would unmount the disks
        # themselves.
        machine.run(
            f"for d in {WRITTEN}; do mount --rbind $d $d && mount --make-rprivate $d"
            " && findmnt -rno TARGET -R $d | while read -r m; do mount -o remount,bind,ro $m || exit 1; done"
            " || exit 1; done"
        )

    def undo(self, machine: Machine) -> None:
        undone = f"for d in {WRITTEN}; do ! mountpoint -q $d || umount -l $d; done"
        machine.run("mount -o remount,rw /" if machine.kind == "qemu" else undone)


class SlowDisk(Fault):
    """Slows the disk, as if a neighbour kept a shared disk busy.

    QEMU slows the machine's own disk; on nspawn the outer disk is slowed for the machine's processes.
    """

    name = "slow-disk"
    summary = "the disk reads and writes only a few MB a second"
    happens = "the run takes longer without timeouts; the service continues until the new release is on the disk"
    then = "wait; if it stays slow, find out who shares the disk"

    def __init__(self, bytes_per_second: int = 4 << 20) -> None:
        self.bytes_per_second = bytes_per_second

    def apply(self, machine: Machine) -> None:
        self._limit(machine, self.bytes_per_second)

    def undo(self, machine: Machine) -> None:
        self._limit(machine, 0)

    def _limit(self, machine: Machine, bytes_per_second: int) -> None:
        if machine.kind == "qemu":
            limits = {"bps": bytes_per_second, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}
            qemu.ask(machine.directory, "block_set_io_throttle", device="disk", **limits)
            return
        device = os.stat(machine.directory).st_dev
        numbers = f"{os.major(device)}:{os.minor(device)}"
        cgroups.limit_disk(machine.places.number, machine.name, numbers, bytes_per_second)
