"""Faults of apt and dpkg: another process holds the lock, an installation was cut, a package is half configured."""

from __future__ import annotations

from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine

UNIT = "rehearsal-apt-lock.service"
# Locks as apt and dpkg take them (fcntl, not flock), on every file of theirs; perl is on every Debian.
HOLD = r"""
use Fcntl;
for my $file (qw(/var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock)) {
    open(my $handle, '>>', $file) or die; push @held, $handle;
    my $wanted = pack('s s x![l!] l! l! i', F_WRLCK, 0, 0, 0, 0);
    fcntl($handle, F_SETLKW, $wanted) or die "$file: $!";
}
open(my $held, '>', '/run/rehearsal-apt-lock.held'); close($held);
sleep $ARGV[0];
"""
NEEDED = "curl"
"""A package of the base role, removed so that a run has something to install."""
SLOW = "rehearsal-slow"
SLOW_PACKAGE = f"""
set -e
rm -rf /tmp/{SLOW}; mkdir -p /tmp/{SLOW}/DEBIAN
printf 'Package: {SLOW}\\nVersion: 1\\nArchitecture: all\\n' >/tmp/{SLOW}/DEBIAN/control
echo 'Maintainer: rehearsal <rehearsal@localhost>' >>/tmp/{SLOW}/DEBIAN/control
echo 'Description: rehearsal stand-in, waits in its postinst' >>/tmp/{SLOW}/DEBIAN/control
printf '#!/bin/sh\\n[ ! -e /run/{SLOW} ] || exec sleep 60\\n' >/tmp/{SLOW}/DEBIAN/postinst
chmod 755 /tmp/{SLOW}/DEBIAN/postinst
dpkg-deb --build /tmp/{SLOW} /tmp/{SLOW}.deb >/dev/null
"""


class AptLock(Fault):
    """Holds the lock, as unattended-upgrades does for minutes after a cloud image's first boot."""

    name = "apt-lock"
    summary = "another program holds the locks of apt and dpkg"
    finds = ("apt-busy",)
    happens = "the run waits up to 15 minutes for the locks, then continues"
    says = "which holds its locks; let it finish"
    then = "nothing to do"

    def __init__(self, seconds: int = 600) -> None:
        self.seconds = seconds

    def apply(self, machine: Machine) -> None:
        _remove_needed(machine)
        machine.put("/run/rehearsal-apt-lock.pl", HOLD)
        machine.run(
            f"rm -f /run/rehearsal-apt-lock.held;"
            f" systemd-run --quiet --collect --unit={UNIT} perl /run/rehearsal-apt-lock.pl {self.seconds};"
            " for i in $(seq 100); do test ! -e /run/rehearsal-apt-lock.held || break; sleep 0.1; done;"
            f" test -e /run/rehearsal-apt-lock.held && systemctl is-active {UNIT}"
        )

    def undo(self, machine: Machine) -> None:
        machine.run(f"systemctl stop {UNIT} 2>/dev/null || true")


class HalfConfigured(Fault):
    """Leaves a package unpacked but not configured, like a killed `apt-get`."""

    name = "half-configured"
    summary = "a package is unpacked and not configured"
    finds = ("packages-half",)
    happens = "the role that needs the package configures it and continues"
    then = "nothing to do"

    def apply(self, machine: Machine) -> None:
        machine.run(
            f"set -e; cd /var/cache/apt/archives; rm -f {NEEDED}_*.deb; apt-get -qq download {NEEDED};"
            f" dpkg --unpack {NEEDED}_*.deb >/dev/null; rm -f {NEEDED}_*.deb"
        )


class DpkgInterrupted(Fault):
    """Kills dpkg during a package's own script: dpkg's journal stays behind, and apt refuses to continue."""

    name = "dpkg-interrupted"
    summary = "dpkg was killed while it configured a package"
    finds = ("packages-half",)
    happens = "the next installation completes the interrupted one (`dpkg --configure -a`) and continues"
    then = "nothing to do"

    def apply(self, machine: Machine) -> None:
        _remove_needed(machine)
        machine.run(
            f"{SLOW_PACKAGE} touch /run/{SLOW}; dpkg -i /tmp/{SLOW}.deb >/dev/null 2>&1 & dpkg=$!;"
            f" for i in $(seq 100); do dpkg -s {SLOW} 2>/dev/null | grep -q half-conf"
            f" && scripts=$(pgrep -P $dpkg) && break; sleep 0.1; done; kill -9 $dpkg $scripts; rm -f /run/{SLOW};"
            ' test -n "$(ls -A /var/lib/dpkg/updates)"'
        )

    def undo(self, machine: Machine) -> None:
        machine.run(f"dpkg --configure -a >/dev/null 2>&1; dpkg --purge {SLOW} >/dev/null 2>&1; rm -rf /tmp/{SLOW}*")


class KernelPending(Fault):
    """Leaves the traces of a kernel upgrade before the reboot: another kernel's directory, and a note."""

    name = "kernel-pending"
    summary = "a new kernel is installed and waits for a reboot"
    finds = ("boot-wanted",)
    happens = "no reboot: the loaded driver fits the running kernel and stays"
    then = "reboot at a convenient time; the next run builds the new kernel's modules"

    def apply(self, machine: Machine) -> None:
        machine.run(
            "set -e; mkdir -p /lib/modules/99.1-rehearsal /run; touch /boot/vmlinuz-99.1-rehearsal;"
            " echo '*** System restart required ***' >/run/reboot-required; echo linux-image >/run/reboot-required.pkgs"
        )

    def undo(self, machine: Machine) -> None:
        machine.run("rm -rf /lib/modules/99.1-rehearsal /boot/vmlinuz-99.1-rehearsal /run/reboot-required*")


def _remove_needed(machine: Machine) -> None:
    machine.run(
        f"dpkg --remove --force-depends {NEEDED} >/dev/null 2>&1;"
        f" ! dpkg -s {NEEDED} 2>/dev/null | grep -q ' ok installed'"
    )
