"""A rehearsal machine that shares the outer kernel: starts, stops, cuts, commands and deletes it.

`machines.py` lists and makes machines; `qemu_machine.py` has those with their own kernel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import cgroups, forks, network, nspawn, ssh
from rehearsal.places import Places, RehearsalRefused
from rehearsal.rootfs import LOGIN_USER, remove_tree
from rehearsal.waiting import NO_LOGIN, greets, wait_for

BOOT_SECONDS = 60
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Machine:
    """A machine of a rehearsal, running or not."""

    name: str
    places: Places

    @property
    def directory(self) -> Path:
        """Returns the directory of everything about the machine on the outer disk."""
        return self.places.machines / self.name

    @property
    def record(self) -> dict[str, Any]:
        """Returns the settings with which the machine was made."""
        return forks.read_record(self.directory)

    @property
    def address(self) -> str:
        """Returns the static IPv4 address on the rehearsal's bridge."""
        return str(self.record["address"])

    @property
    def os(self) -> str:
        """The machine's system as an inventory writes it: `debian-12`, `ubuntu-24.04`."""
        return str(self.record["os"])

    @property
    def kind(self) -> str:
        """Returns `nspawn`, which shares the outer kernel, or `qemu`, which has its own."""
        return str(self.record.get("kind", "nspawn"))

    @property
    def user(self) -> str:
        """Returns the login user, who has passwordless sudo."""
        return LOGIN_USER

    @property
    def identity_file(self) -> Path:
        """Returns the private key of the login user."""
        return self.places.identity_file

    @property
    def ssh_config(self) -> Path:
        """Returns the ssh_config in which the machine's name is a host."""
        return self.places.ssh_config

    @property
    def state(self) -> str:
        """Returns `running`, `starting` (between power-on, or a reboot, and PID 1), or `off`."""
        if nspawn.supervisor_pid(self.directory) is None:
            return "off"
        return "running" if nspawn.leader_pid(self.directory) else "starting"

    def start(self) -> None:
        """Starts the machine and waits for SSH; does nothing if it runs."""
        self.power_on()
        self.wait()

    def power_on(self) -> None:
        """Boots the machine without waiting; to start several machines, power on all of them before waiting for the
        first."""
        if nspawn.supervisor_pid(self.directory) is None:
            forks.require_layers(self.directory)
            # A machine can outlive a killed supervisor; two machines on one layer would destroy the layer.
            nspawn.clear_away(self.record)
            nspawn.start(self.directory)

    def stop(self) -> None:
        """Shuts the machine down, or cuts its power if it does not end."""
        pid = nspawn.supervisor_pid(self.directory)
        if pid is not None:
            ssh.close_connection(self.places, self.name)
            os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(RehearsalRefused):
                seconds = nspawn.POWER_OFF_SECONDS + cgroups.END_SECONDS
                wait_for(lambda: nspawn.supervisor_pid(self.directory) is None, seconds, self)
        self._end()

    def power_cycle(self) -> None:
        """Cuts the power without warning and boots again (the page cache survives)."""
        pid, before = nspawn.supervisor_pid(self.directory), nspawn.leader_pid(self.directory)
        if pid is None:
            return self.start()
        ssh.close_connection(self.places, self.name)
        os.kill(pid, signal.SIGUSR1)
        self._wait_for_another(before)

    def cut_power(self) -> None:
        """Cuts the power without warning; the machine stays off."""
        ssh.close_connection(self.places, self.name)
        self._end()

    def reboot(self) -> None:
        """Reboots the machine from inside and waits for another boot id."""
        before = nspawn.leader_pid(self.directory)
        self.run("systemctl reboot", check=False)
        self._wait_for_another(before)

    def wait(self, seconds: float = BOOT_SECONDS) -> None:
        """Waits until its users may log in; refuses with the end of the console log after `seconds`."""
        wait_for(self._lets_in, seconds, self)

    def destroy(self) -> None:
        """Deletes the machine and its files without a shutdown, since no data is kept."""
        ssh.close_connection(self.places, self.name)
        self._end()
        remove_tree(self.directory)

    def run(self, command: str, *, check: bool = True, input: str | bytes | None = None, timeout: float | None = 300
            ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Runs a shell command inside as root, without SSH. Raises on a non-zero exit if `check` is true."""
        leader = nspawn.leader_pid(self.directory)
        if leader is None:
            state = f"{self.name} is {self.state}: nothing can run in it"
            raise RehearsalRefused(f"{state}\n  try     python -m rehearsal up {self.name}")
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        # Entering from outside would bring the outer root's capabilities along.
        drop = ",".join(f"-{name.removeprefix('CAP_').lower()}" for name in nspawn.DROPPED_CAPABILITIES)
        without = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}"]
        enter = [*without, "nsenter", f"--target={leader}", *spaces, "--root", "--wd"]
        environment = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        finished = subprocess.run(
            [*enter, "sh", "-c", command], env=environment, timeout=timeout, check=False, capture_output=True,
            input=input.encode() if isinstance(input, str) else input or b"",
        )  # fmt: skip
        texts = finished.stdout.decode(errors="replace"), finished.stderr.decode(errors="replace")
        if check and finished.returncode != 0:
            raise subprocess.CalledProcessError(finished.returncode, command, *texts)
        return subprocess.CompletedProcess(command, finished.returncode, *texts)

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Writes `content` to the file inside, owned by root; makes its directories."""
        self.run(f"install -D -m {mode:o} /dev/stdin '{path}'", input=content)

    def ssh(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """Runs a command as the login user over real SSH, on this terminal."""
        return subprocess.run(["ssh", "-F", str(self.ssh_config), self.name, *command], check=False)

    def limit_rate(self, rate: str | None) -> None:
        """Limits the machine's download rate (`100mbit`), also after reboots; None lifts the limit."""
        forks.write_record(self.directory, self.record | {"rate": rate})
        network.limit_rate(network.Network(self.places.number).link(self.name), rate)

    def _lets_in(self) -> bool:
        """Returns True if a login would succeed: sshd answers before systemd-user-sessions admits users."""
        with contextlib.suppress(RehearsalRefused):  # the machine went down again
            return greets(self.address) and self.run(f"test ! -e {NO_LOGIN}", check=False).returncode == 0
        return False

    def _wait_for_another(self, before: int | None) -> None:
        wait_for(lambda: nspawn.leader_pid(self.directory) not in (before, None), BOOT_SECONDS, self)
        self.wait()

    def _end(self) -> None:
        """Ends supervisor and machine in every state."""
        pid = nspawn.supervisor_pid(self.directory)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: nspawn.supervisor_pid(self.directory) is None, cgroups.END_SECONDS, self)
        nspawn.clear_away(self.record)
