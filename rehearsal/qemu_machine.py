"""A rehearsal machine with its own kernel: the interface of `machine.Machine`, over QEMU and SSH."""

from __future__ import annotations

import contextlib
import shlex
import subprocess

from rehearsal import network, qemu, ssh
from rehearsal.machine import PATH, Machine
from rehearsal.places import RehearsalRefused
from rehearsal.waiting import greets, wait_for

BOOT_SECONDS = 600  # software emulation: 35 s to SSH on idle cores, more than 240 s was seen beside three busy lanes
POWER_OFF_SECONDS = 90


class QemuMachine(Machine):
    """A machine under QEMU: ten to twenty times slower than nspawn, but with its own kernel, modules, disk cache and
    power switch."""

    @property
    def accelerator(self) -> str:
        """Returns `kvm` or `tcg`, as used at the machine's last start."""
        return (self.directory / "accelerator").read_text().strip()

    @property
    def state(self) -> str:
        """Returns `running`, `starting` (SSH does not answer yet) or `off`."""
        if qemu.pid(self.directory) is None:
            return "off"
        return "running" if greets(self.address) else "starting"

    def power_on(self) -> None:
        """Boots the machine without waiting."""
        if qemu.pid(self.directory) is None:
            qemu.start(self.directory)

    def wait(self, seconds: float = BOOT_SECONDS) -> None:
        """Waits like for every machine, but longer, because of emulation."""
        super().wait(seconds)

    def stop(self) -> None:
        """Shuts the machine down, or cuts its power if it does not end."""
        if self.state == "running":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.run("systemctl poweroff", check=False, timeout=20)
            with contextlib.suppress(RehearsalRefused):
                wait_for(lambda: qemu.pid(self.directory) is None, POWER_OFF_SECONDS, self)
        self._end()

    def power_cycle(self) -> None:
        """Cuts the power without warning and boots again; unsynced data is lost."""
        self._end()
        self.start()

    def reboot(self) -> None:
        """Reboots the machine from inside and waits for another boot id."""
        before = self._boot_id()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("systemctl reboot", check=False, timeout=6)
        ssh.close_connection(self.places, self.name)
        wait_for(lambda: self._boot_id() not in ("", before), BOOT_SECONDS, self)

    def run(self, command: str, *, check: bool = True, input: str | bytes | None = None, timeout: float | None = 600
            ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Runs a shell command inside as root, over SSH. Raises on a non-zero exit if `check` is true."""
        inside = (
            f"sudo env PATH={PATH} HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -c {shlex.quote(command)}"
        )
        finished = subprocess.run(
            ["ssh", "-F", str(self.ssh_config), self.name, inside], timeout=timeout, check=False, capture_output=True,
            input=input.encode() if isinstance(input, str) else input or b"",
        )  # fmt: skip
        texts = finished.stdout.decode(errors="replace"), finished.stderr.decode(errors="replace")
        if check and finished.returncode != 0:
            raise subprocess.CalledProcessError(finished.returncode, command, *texts)
        return subprocess.CompletedProcess(command, finished.returncode, *texts)

    def _lets_in(self) -> bool:
        return greets(self.address) and self._boot_id() != ""

    def _boot_id(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.run("cat /proc/sys/kernel/random/boot_id", check=False, timeout=6).stdout.strip()
        return ""

    def _end(self) -> None:
        ssh.close_connection(self.places, self.name)
        qemu.pull_the_plug(self.directory)
        network.remove_link(network.Network(self.places.number).link(self.name))
