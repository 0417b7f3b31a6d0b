"""Faults between the control machine and the host, and of name resolution: cut, changed keys, no DNS."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from rehearsal import machines
from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY

WATCH_SECONDS = 300
SESSIONS = (
    "for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' <$p/cmdline 2>/dev/null)\" in"
    " sshd*:\\ *) kill -9 ${p#/proc/};; esac; done; true"
)
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"


class SshCut(Fault):
    """Cuts the SSH sessions: a process outside counts the bytes that are sent to the machine, and ends with the cut."""

    name = "ssh-cut"
    summary = "every SSH session breaks after a number of sent bytes"
    finds = ("drift",)
    happens = "rsync continues in a new session; if pyinfra's own session breaks too, the run ends; sent files stay"
    says = "rsync ended with"  # with 255, ssh's own status, or with 10 or 12, if rsync notices the end first
    then = "run again: the transfer resumes"
    moment = "Model store | Send"
    kinds = ("nspawn",)

    def __init__(self, after_bytes: int = 100_000) -> None:
        self.after_bytes = after_bytes

    def apply(self, machine: Machine) -> None:
        # Counted from now on, because the watcher takes a moment to start.
        at_bytes = sent_bytes(machine) + self.after_bytes
        command = [sys.executable, "-m", "rehearsal.faults.line", machine.name, str(at_bytes)]
        # A shell starts the watcher, so that this process need not wait for it.
        shell = ["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 & echo $! >"$0"', str(self._pid_file(machine)), *command]
        subprocess.run(shell, cwd=REPOSITORY, check=True, start_new_session=True)

    def undo(self, machine: Machine) -> None:
        pid_file = self._pid_file(machine)
        number = pid_file.read_text().strip() if pid_file.exists() else ""
        if number and b"rehearsal.faults.line" in _command(number):
            subprocess.run(["kill", number], check=False)
        pid_file.unlink(missing_ok=True)

    def _pid_file(self, machine: Machine) -> Path:
        return machine.directory / "fault-ssh-cut.pid"


class HostKeyChanged(Fault):
    """Changes the host key, as a reinstallation or an attacker would."""

    name = "host-key-changed"
    summary = "the host presents a different SSH key than the known one"
    finds = ("unasked",)
    happens = "nothing is sent to this host; the gate stops the run before the first change"
    says = "Host key for"
    then = "find out why before removing the old key from known_hosts"

    def apply(self, machine: Machine) -> None:
        machine.run(
            f"mv {HOST_KEY} {HOST_KEY}.before; mv {HOST_KEY}.pub {HOST_KEY}.pub.before;"
            f" ssh-keygen -q -t ed25519 -N '' -f {HOST_KEY} && systemctl restart ssh.service"
        )

    def undo(self, machine: Machine) -> None:
        machine.run(
            f"[ ! -e {HOST_KEY}.before ] || {{ mv {HOST_KEY}.before {HOST_KEY};"
            f" mv {HOST_KEY}.pub.before {HOST_KEY}.pub; systemctl restart ssh.service; }}"
        )
        machines.write_ssh_config(machine.places)


class DnsGone(Fault):
    """Removes name resolution, including /etc/hosts, where a rehearsal has its own names."""

    name = "dns-gone"
    summary = "the host cannot resolve names"
    finds = ("deploy-refused",)
    happens = "refused before the first change; the service continues"
    says = "cannot be reached, and image would come from there"

    def apply(self, machine: Machine) -> None:
        machine.run(
            "cp /etc/hosts /etc/hosts.before; cp /etc/resolv.conf /etc/resolv.conf.before;"
            " echo '127.0.0.1 localhost' >/etc/hosts; echo 'nameserver 192.0.2.1' >/etc/resolv.conf"
        )

    def undo(self, machine: Machine) -> None:
        machine.run(
            "for f in /etc/hosts /etc/resolv.conf; do [ ! -e $f.before ] || { cat $f.before >$f; rm $f.before; }; done"
        )


def sent_bytes(machine: Machine) -> int:
    """Returns the bytes that the machine has received over its cable since its start."""
    link = Network(machine.places.number).link(machine.name)
    return int(Path(f"/sys/class/net/{link}/statistics/tx_bytes").read_text())


def cut_sessions(machine: Machine) -> None:
    """Ends every SSH session of the machine; sshd itself keeps running."""
    machine.run(SESSIONS)


def _command(pid: str) -> bytes:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes() if path.exists() else b""


def watch(name: str, at_bytes: int) -> None:
    """Cuts the sessions of that machine after that many bytes in total; gives up after minutes."""
    machine, end = machines.named(name), time.monotonic() + WATCH_SECONDS
    while time.monotonic() < end:
        if sent_bytes(machine) >= at_bytes:
            return cut_sessions(machine)
        time.sleep(0.01)


if __name__ == "__main__":
    watch(sys.argv[1], int(sys.argv[2]))
