"""Faults of the clock. Machines that share the outer kernel share its clock too, so only machines with their own kernel
can have them."""

from __future__ import annotations

from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine


class ClockWrong(Fault):
    """The clock is an hour ahead, and no time service corrects it."""

    name = "clock-wrong"
    summary = "the host's clock is an hour ahead"
    finds = ("clock-off",)
    happens = "refused before the first change, because certificates and signed package lists would look invalid"
    says = "its clock differs from this machine's"
    then = "`timedatectl set-ntp true` on the host, run again"
    kinds = ("qemu",)

    def apply(self, machine: Machine) -> None:
        machine.run("systemctl stop systemd-timesyncd.service 2>/dev/null; date -s '+1 hour' >/dev/null")

    def undo(self, machine: Machine) -> None:
        machine.run("date -s '-1 hour' >/dev/null; systemctl start systemd-timesyncd.service 2>/dev/null || true")
