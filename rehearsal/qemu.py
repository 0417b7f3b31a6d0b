"""A machine under QEMU: its own kernel, a disk that loses unsynced data, and a power switch.

It uses hardware acceleration if a trial boot reaches the kernel's first output (on some machines /dev/kvm exists and
hangs), else software emulation; the choice is recorded beside the machine and shown. `machines.py` decides which
machines exist.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from rehearsal import disk, network, nspawn
from rehearsal.places import RehearsalRefused, cache, cache_locked

MEMORY_MIB = 4096
CORES = 2
TRIAL_SECONDS = 15
KILL_SECONDS = 30
ANSWER_SECONDS = 10
KVM = Path("/dev/kvm")
ACCELERATORS = {"kvm": ("-accel", "kvm", "-cpu", "host"), "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max")}


def arguments(directory: Path, record: dict[str, Any], accelerator: str) -> list[str]:
    """Returns QEMU's command line for the machine whose state is in `directory`."""
    base, net = disk.BaseDisk(Path(record["base"])), network.Network(record["number"])
    # Ends in a number that is unique on this bridge.
    mac = "52:54:00:ee:{:02x}:{:02x}".format(record["number"], int(record["address"].rsplit(".", 1)[1]))
    words = (
        f"root=LABEL=root rw console=ttyS0 systemd.hostname={record['name']} systemd.machine_id={record['machine_id']}"
    )
    return [
        *("qemu-system-x86_64", *ACCELERATORS[accelerator], "-smp", str(CORES), "-m", str(MEMORY_MIB)),
        *("-display", "none", "-serial", f"file:{directory / 'console.log'}", "-monitor", "none"),
        # A relative path, because a socket's path has at most 107 characters; QEMU starts in `directory`.
        *("-qmp", "unix:qmp,server=on,wait=off"),
        *("-daemonize", "-pidfile", str(directory / "qemu.pid")),
        *("-kernel", str(base.kernel), "-initrd", str(base.initramfs), "-append", words),
        # Writeback: flushed data is written, and the rest is lost with the machine, as on a real disk.
        *("-drive", f"file={directory / 'disk.qcow2'},if=virtio,format=qcow2,cache=writeback,id=disk"),
        *("-drive", f"file={directory / 'identity.raw'},if=virtio,format=raw,readonly=on"),
        *("-netdev", f"tap,id=cable,ifname={net.link(record['name'])},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev=cable,mac={mac}", "-device", "virtio-rng-pci"),
    ]


def start(directory: Path) -> None:
    """Boots the machine, detached from this process."""
    record = json.loads((directory / "machine.json").read_text())
    plug_in(record)
    accelerator = best_accelerator(disk.BaseDisk(Path(record["base"])))
    (directory / "accelerator").write_text(accelerator + "\n")
    with (directory / "supervisor.log").open("w") as log:
        command = arguments(directory, record, accelerator)
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd=directory)


def plug_in(record: dict[str, Any]) -> None:
    """Attaches the machine's cable to the bridge."""
    net = network.Network(record["number"])
    link = net.link(record["name"])
    network.remove_link(link)
    for words in (
        ("tuntap", "add", "dev", link, "mode", "tap"),
        ("link", "set", link, "master", net.bridge, "up"),
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
    if record.get("rate"):
        network.limit_rate(link, record["rate"])


def pid(directory: Path) -> int | None:
    """Returns the pid of the running machine, None while it is off."""
    try:
        number = int((directory / "qemu.pid").read_text())
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    alive = str(directory / "qemu.pid").encode() in command and nspawn.start_time(number) is not None
    return number if alive else None


def ask(directory: Path, command: str, **arguments: Any) -> Any:
    """Returns QEMU's answer to a command of its machine protocol; refuses with QEMU's message if the command fails."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_SECONDS)
            line.connect(f"/proc/self/fd/{opened}/qmp")
            stream = line.makefile("rw")
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                # Greetings and events come in between.
                answer = next(
                    message for message in map(json.loads, stream) if "return" in message or "error" in message
                )
    finally:
        os.close(opened)
    if "error" in answer:
        raise RehearsalRefused(f"QEMU does not {command}: {answer['error']['desc']}")
    return answer["return"]


def pull_the_plug(directory: Path) -> None:
    """Turns the machine off without warning."""
    number = pid(directory)
    if number is None:
        return
    os.kill(number, signal.SIGKILL)
    end = time.monotonic() + KILL_SECONDS
    while not _is_over(number) and time.monotonic() < end:
        time.sleep(0.02)


def _is_over(number: int) -> bool:
    """Returns True once the process has fully ended, because an ending process still holds its files and pid lock."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list(Path(f"/proc/{number}/task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX" and threads == 1


def best_accelerator(base: disk.BaseDisk) -> str:
    """Returns `kvm` if a kernel starts with it here, else `tcg`; tried once per boot of the outer machine."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    verdict = cache() / f"accelerator-{boot}"
    with cache_locked("accelerator"):
        if not verdict.exists():
            verdict.write_text("kvm" if KVM.exists() and _boots("kvm", base) else "tcg")
        return verdict.read_text()


def _boots(accelerator: str, base: disk.BaseDisk) -> bool:
    """Returns True if the kernel prints its first output; it then panics without a disk, which ends the trial."""
    with tempfile.TemporaryDirectory() as scratch:
        console = Path(scratch) / "console"
        trial = subprocess.Popen(
            [
                *("qemu-system-x86_64", *ACCELERATORS[accelerator], "-m", "512", "-display", "none"),
                *("-monitor", "none"),
                *("-no-reboot", "-serial", f"file:{console}", "-kernel", str(base.kernel)),
                *("-append", "console=ttyS0 panic=-1"),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + TRIAL_SECONDS
        try:
            while time.monotonic() < end and trial.poll() is None:
                if _spoke(console):
                    return True
                time.sleep(0.1)
            return _spoke(console)
        finally:
            trial.kill()
            trial.wait()


def _spoke(console: Path) -> bool:
    return console.exists() and b"Linux version" in console.read_bytes()
