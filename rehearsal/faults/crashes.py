"""Faults that end something without warning: the control process, the power, the container, its server, the GPU."""

from __future__ import annotations

import contextlib
import os
import signal

from rehearsal.faults.fault import SERVING, Fault
from rehearsal.machine import Machine
from rehearsal.pyinfra_run import control_pid

PCI = "/sys/bus/pci/devices"


class KillControl(Fault):
    """Kills the pyinfra process of this rehearsal, and no other pyinfra."""

    name = "kill-control"
    summary = "the control process is killed (SIGKILL) in the middle of a swap"
    happens = "work on the host continues: pull, download and swap are units of the host"
    then = "run again: it attaches to running units; if they have finished, it changes nothing"
    moment = "Triton | Swap"

    def apply(self, machine: Machine) -> None:
        if pid := control_pid(machine.places):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class PowerCut(Fault):
    """Cuts the power. nspawn keeps the outer page cache; QEMU loses unsynced data."""

    name = "power-cut"
    summary = "the host loses power in the middle of a swap"
    happens = "the next boot restores the previous release before any server starts"
    says = "the connection to this host is lost"
    moment = "Triton | Swap"

    def apply(self, machine: Machine) -> None:
        machine.power_cycle()


class ContainerKilled(Fault):
    """Kills the container, as `docker kill` does."""

    name = "container-killed"
    summary = "the container of a server is killed"
    finds = ("unit-starting",)
    happens = "its unit restarts it within seconds; a run at that time waits until every model answers"
    then = "nothing to do"
    moment = SERVING

    def apply(self, machine: Machine) -> None:
        machine.run("docker kill --signal KILL triton-main")


class OomKill(Fault):
    """Sends the signal of the kernel's OOM killer; rehearsal machines without their own kernel have no limit."""

    name = "oom-kill"
    summary = "the kernel kills Triton because memory ran out"
    finds = ("unit-restarted",)
    happens = "the unit restarts it, and its journal names the cause"
    then = "nothing to do; if it recurs, plan smaller models or caches"
    moment = SERVING

    def apply(self, machine: Machine) -> None:
        machine.run("kill -KILL $(docker inspect -f '{{.State.Pid}}' triton-main)")


class GpuGone(Fault):
    """Takes the GPU off the bus, with the driver's message. A stand-in GPU is an entry under /sys."""

    name = "gpu-gone"
    summary = "a GPU falls off the bus (Xid 79)"
    finds = ("off-the-bus", "gpu-count")
    happens = "refused before the first change; the service stays untouched"
    says = "the number of GPUs differs"
    then = "stop and start the VM, or return the host to its provider"
    moment = SERVING
    kinds = ("nspawn",)

    def apply(self, machine: Machine) -> None:
        machine.run(
            f"for d in {PCI}/*; do [ $(cat $d/vendor) != 0x10de ] || mv $d /sys/bus/pci/gone-$(basename $d); done;"
            " logger -t kernel 'NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus. (rehearsal)'"
        )

    def undo(self, machine: Machine) -> None:
        # The message stays in the log until a reboot, so the GPU counts as faulty until then.
        if machine.run("ls -d /sys/bus/pci/gone-*", check=False).stdout:
            machine.reboot()
