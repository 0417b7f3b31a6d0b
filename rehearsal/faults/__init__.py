"""All known faults by name: `python -m rehearsal faults` lists them, tests/faults shows them."""

from __future__ import annotations

import difflib

from rehearsal.faults import clock, crashes, disks, foreign, line, packages, registries
from rehearsal.faults.fault import Fault
from rehearsal.places import RehearsalRefused

FAULTS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        line.SshCut,
        line.HostKeyChanged,
        line.DnsGone,
        crashes.KillControl,
        crashes.PowerCut,
        crashes.ContainerKilled,
        crashes.OomKill,
        crashes.GpuGone,
        disks.FullDisk,
        disks.ReadOnly,
        disks.SlowDisk,
        packages.AptLock,
        packages.HalfConfigured,
        packages.DpkgInterrupted,
        packages.KernelPending,
        registries.RegistryDown,
        registries.RegistrySlow,
        registries.Registry401,
        registries.RegistryTruncated,
        foreign.ForeignDocker,
        foreign.ForeignDriver,
        foreign.EditedDaemon,
        foreign.PortTaken,
        clock.ClockWrong,
    )
}


def fault(name: str) -> Fault:
    """Returns a new fault of that name; refuses an unknown name and suggests the nearest one."""
    if name in FAULTS:
        return FAULTS[name]()
    near = difflib.get_close_matches(name, FAULTS, 1)
    offered = f"did you mean {near[0]}?" if near else "python -m rehearsal faults"
    raise RehearsalRefused(f"there is no fault {name}\n  try     {offered}\n  state   nothing was touched")


def table() -> str:
    """Returns the table of rehearsal/README.md."""
    head = [
        "| fault | reaction of the run and the host | message; next step | doctor's findings |",
        "| --- | --- | --- | --- |",
    ]
    rows = [
        f"| `{kind.name}`: {kind.summary} | {kind.happens} | {_seen(kind)} | {_name_of(kind)} |"
        for kind in FAULTS.values()
    ]
    return "\n".join([*head, *rows])


def _name_of(kind: type[Fault]) -> str:
    return ", ".join(f"`{name}`" for name in kind.finds) or "nothing"


def _seen(kind: type[Fault]) -> str:
    return f"`{kind.says}`; {kind.then}" if kind.says else f"no message; {kind.then}"
