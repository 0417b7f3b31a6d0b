"""Changes by others on the host: another engine or driver, edited settings, a program on our port."""

from __future__ import annotations

import json

from rehearsal.faults.fault import SERVING, Fault
from rehearsal.machine import Machine

DAEMON = "/etc/docker/daemon.json"
UNINSTALL = "/usr/bin/nvidia-uninstall"
UNIT = "rehearsal-port.service"
FOREIGN_KEYS = {"max-concurrent-downloads": 5, "features": {"buildkit": True}, "labels": ["rack=7"]}


class ForeignDocker(Fault):
    """Installs the distribution's Docker, although the inventory asks for Docker's own."""

    name = "foreign-docker"
    summary = "another Docker was installed by hand"
    finds = ("deploy-refused",)
    happens = "refused before the first change: replacing that Docker would stop its containers"
    says = "another Docker is installed: docker.io"
    then = 'purge it, or keep it (`source="distribution"`) if the message offers that; run again'

    def apply(self, machine: Machine) -> None:
        machine.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io >/dev/null")

    def undo(self, machine: Machine) -> None:
        machine.run("apt-get purge -y -qq docker.io containerd runc >/dev/null; apt-get autoremove -y -qq >/dev/null")


class ForeignDriver(Fault):
    """Installs a driver as NVIDIA's runfile does, with its own uninstaller and without any package."""

    name = "foreign-driver"
    summary = "the driver was installed from NVIDIA's runfile"
    finds = ("deploy-refused",)
    happens = "refused before the first change"
    says = "the driver came from NVIDIA's runfile"
    then = "`nvidia-uninstall` and reboot, or `Driver(manage=False)` to use it as it is"

    def apply(self, machine: Machine) -> None:
        machine.put(UNINSTALL, "#!/bin/sh\necho 'rehearsal stand-in'\n", 0o755)

    def undo(self, machine: Machine) -> None:
        machine.run(f"rm -f {UNINSTALL}")


class EditedDaemon(Fault):
    """Adds foreign keys to daemon.json, and removes one of ours."""

    name = "edited-daemon-json"
    summary = "daemon.json was edited by hand: other keys added, this project's removed"
    finds = ("drift",)
    happens = "this project's keys are merged in, other keys stay; Docker restarts while the host is drained"
    says = "Merge daemon.json"
    then = "nothing to do"
    moment = SERVING

    def apply(self, machine: Machine) -> None:
        settings = json.loads(machine.run(f"cat {DAEMON}").stdout)
        machine.put(f"{DAEMON}.before", json.dumps(settings, indent=4) + "\n")
        settings.pop("features", None)
        machine.put(DAEMON, json.dumps(settings | FOREIGN_KEYS, indent=4) + "\n")

    def undo(self, machine: Machine) -> None:
        machine.run(f"rm -f {DAEMON}.before")


class PortTaken(Fault):
    """Stops our server and occupies its port with another program."""

    name = "port-taken"
    summary = "another program listens on the server's port"
    finds = ("unit-stopped", "port-taken")
    happens = "refused before the first change, with the program's name"
    says = "port 8000 is taken, and not by triton@main"
    then = "stop that program or choose another port, run again"

    def apply(self, machine: Machine) -> None:
        machine.run(
            "systemctl stop 'triton@*.service';"
            f" systemd-run --quiet --unit={UNIT} perl -MIO::Socket::INET -e"
            " 'my $s = IO::Socket::INET->new(Listen => 5, LocalPort => 8000, ReuseAddr => 1) or die; sleep 3600';"
            " sleep 0.5"
        )

    def undo(self, machine: Machine) -> None:
        machine.run(f"systemctl stop {UNIT} 2>/dev/null || true")
