"""Partitions of a host's GPUs, read from nvidia-smi; and the refusals for GPUs that this project does not manage. Pure.

`Driver(manage=False)` means that this project does not manage a card's settings, including its MIG mode and instances.
Preflight refuses a wrong cut of such a card before the first change; the role `mig` judges it again after the driver
was verified.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deploy.catalog.mig import PROFILES, MigProfile, places
from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, ask_units, ask_value

ON, OFF, NEVER = "Enabled", "Disabled", "[N/A]"
BOOT_UNIT = "enginehouse-mig.service"
"""Unit of the role `mig` that cuts the GPUs again after every boot."""
_LOADED = "[ -e /proc/driver/nvidia/version ]"
_MODES = "nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv,noheader"
_GPU = re.compile(r"GPU (\d+):")
_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


@dataclass(frozen=True)
class GpuState:
    """A GPU of the host: its mode now and after the next reset, and its instances in the order of CDI's numbers."""

    index: int
    current: str
    pending: str
    instances: tuple[str, ...]

    def is_cut(self, wanted: tuple[str, ...]) -> bool:
        """True if the GPU is cut into exactly `wanted`; for an empty `wanted` its mode is off, or it has no MIG."""
        if not wanted:
            return OFF == self.current == self.pending or self.current == NEVER
        return ON == self.current == self.pending and self.instances == wanted

    @property
    def cut(self) -> str:
        """The GPU's present instances, or its mode, in words for a refusal."""
        if self.current != self.pending:
            return f"MIG {self.current}, {self.pending} is pending"
        if self.instances:
            return " + ".join(self.instances)
        return {ON: "MIG on, no instances", OFF: "MIG off"}.get(self.current, "no MIG mode")


def fact_commands() -> list[str]:
    return [
        ask_units(BOOT_UNIT),
        ask_value("modes", f"{_LOADED} && {_MODES} | grep '^[0-9]'"),
        ask_value("listed", f"{_LOADED} && nvidia-smi -L | grep -E '^(GPU| +MIG) '"),
    ]


def gpus(facts: HostFacts) -> tuple[GpuState, ...]:
    """Every GPU that the driver shows; none without a driver."""
    listed, number = dict[int, list[str]](), -1
    for line in facts.value("listed").splitlines():
        if match := _GPU.match(line):
            number = int(match[1])
        elif match := _DEVICE.match(line):
            listed.setdefault(number, []).append(match[1])
    rows = [[field.strip() for field in line.split(",")] for line in facts.value("modes").splitlines()]
    return tuple(
        GpuState(int(row[0]), row[1], row[2], tuple(listed.get(int(row[0]), ())))
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    )


def is_cut(facts: HostFacts, mine: Slice) -> bool:
    """True if every GPU is as planned; a GPU with planned instances has to exist."""
    present = gpus(facts)
    return all(gpu.is_cut(mine.mig) for gpu in present) and (not mine.mig or len(present) == mine.machine.gpus)


def planned_cut(mine: Slice) -> str:
    return " + ".join(mine.mig) or "whole GPUs, MIG off"


def not_ours_to_cut(facts: HostFacts, mine: Slice, state: str) -> Iterator[Refusal]:
    """Refusals of unmanaged GPUs that differ from the declaration, and of our boot unit, which would cut these GPUs.

    Only for `Driver(manage=False)`. Their `try` lines are for the inventory, or for the owner of the GPUs.
    """
    present = gpus(facts)
    if any(not gpu.is_cut(mine.mig) for gpu in present):
        yield _other_cut(present, mine, state)
    if facts.unit(BOOT_UNIT).starts_at_boot:
        yield Refusal(
            "a unit of an earlier deploy cuts the GPUs at every boot, and their driver is not managed",
            facts={
                "found": f"{BOOT_UNIT}, enabled",
                "wanted": "no unit of this project that cuts them: Driver(manage=False)",
            },
            attempt=f"systemctl disable {BOOT_UNIT} on the host, once their owner gives them the declared cut at boot; "
            "or driver = Driver(manage=True)",
            state=state,
            kind="mig-boot-unit",
        )


def _other_cut(present: tuple[GpuState, ...], mine: Slice, state: str) -> Refusal:
    wrong = [gpu for gpu in present if not gpu.is_cut(mine.mig)]
    return Refusal(
        "the GPUs are not cut as declared, and a driver that is not managed is left as it is",
        facts={
            "found": "; ".join(f"GPU {gpu.index}: {gpu.cut}" for gpu in wrong),
            "wanted": planned_cut(mine),
            "means": "Driver(manage=False): MIG mode and instances belong to somebody else, and were left untouched",
        },
        attempt="; or ".join(
            [*_declared(present, mine), "driver = Driver(manage=True)", *_by_their_owner(wrong, mine)]
        ),
        state=state,
        kind="mig-not-managed",
    )


def _declared(present: tuple[GpuState, ...], mine: Slice) -> Iterator[str]:
    """The declaration of the present partition, if all GPUs have equal profiles of the catalog."""
    cuts = {gpu.instances if gpu.is_cut(gpu.instances) else None for gpu in present}
    (cut, *others) = cuts
    if cut is not None and not others and all((mine.machine.gpu, name) in PROFILES for name in cut):
        yield f"mig={cut} in its Machine, and servers that fit there"


def _by_their_owner(wrong: list[GpuState], mine: Slice) -> Iterator[str]:
    """The command with which the owner cuts `wrong` as declared; none if a GPU has no MIG mode."""
    if any(gpu.current == NEVER for gpu in wrong):
        return
    wanted = ON if mine.mig else OFF
    if all(gpu.pending == wanted != gpu.current for gpu in wrong):
        yield "their owner reboots the host, which makes the pending mode effective"
        return
    commands = []
    if used := _numbers(gpu for gpu in wrong if gpu.instances):  # nvidia-smi fails if there is no instance to destroy
        commands += [f"nvidia-smi mig -i {used} -dci", f"nvidia-smi mig -i {used} -dgi"]
    if to_switch := _numbers(gpu for gpu in wrong if {gpu.current, gpu.pending} != {wanted}):
        commands.append(f"nvidia-smi -i {to_switch} -mig {int(bool(mine.mig))}")
    if mine.mig:
        commands.append(f"nvidia-smi mig -i {_numbers(wrong)} -cgi {_placed(mine)} -C")
    yield f"their owner types {' && '.join(commands)}"


def _numbers(present: Iterable[GpuState]) -> str:
    return ",".join(str(gpu.index) for gpu in present)


def _placed(mine: Slice) -> str:
    return ",".join(f"{profile.profile_id}:{start}" for profile, start in placements(mine))


def placements(mine: Slice) -> list[tuple[MigProfile, int]]:
    """The planned instances of a GPU, each with its first memory slice."""
    profiles = [PROFILES[mine.machine.gpu, name] for name in mine.mig]
    starts = places(profiles)
    assert starts is not None, "instances that do not fit passed the checks"
    return list(zip(profiles, starts, strict=True))
