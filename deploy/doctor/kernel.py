"""Findings in the kernel's log beside Xid messages: driver, NVSwitches, PCIe, memory of the host, and crashes.

Sources, read in stored copies on 2026-11-27: NVIDIA/open-gpu-kernel-modules (nv.c, nv-pci.c, osinit.c, and the NVSwitch
driver's `SXid (PCI:…): N, Fatal|Non-fatal, …`), Linux drivers/pci/pcie/aer.c and mm/oom_kill.c. The lines of
`module-refused`, `task-hung`, `disk-failing`, `uvm-fatal` and `host-memory-fault` (mce, EDAC) are known from reports,
and their sources were not read. A message of several lines comes as several lines; the last may have no stamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.gpu import place_of
from deploy.doctor.xids import PLACE, STAMP, Message, text_of

_PROGRAMS = "tritonserver|trtllm[a-z-]{0,20}|python3?|pt_main_thread|mpirun|orted|VLLM::[A-Za-z0-9_]{1,12}|vllm"

RULES: Mapping[str, tuple[str, ...]] = {
    "sxid-fatal": (r"SXid \(PCI:[0-9a-fA-F:.]{5,20}\):? [0-9]{1,9}, Fatal",),
    "sxid": (r"SXid \(PCI:[0-9a-fA-F:.]{5,20}\):? [0-9]{1,9}, Non-fatal", r"SXid \(PCI:"),
    "open-modules": ("requires use of the NVIDIA open kernel modules",),
    "driver-unfit": (
        "is not supported by open",
        "Open nvidia.ko is only ready for use on",
        "installed in this system is not supported by the",
        "supported through the NVIDIA [0-9.x]{1,12} Legacy drivers",
        "NVIDIA driver will ignore",
    ),
    "gpu-unpowered": ("does not have the necessary power cables connected",),
    "gpu-window": (
        "PCI I/O region assigned to your NVIDIA device is invalid",
        "NVRM: BAR[0-9] is 0M",
        r"BAR [15]:? (no space for \[mem size|failed to assign \[mem size|\[mem size) 0x[0-9a-f]{9,16} 64bit pref\]",
    ),
    "gpu-taken": (
        "NVIDIA probe routine was not called for",
        r"NVRM: GPU [0-9a-fA-F:.]{5,20} is already bound to",
        "nouveau, rivafb, nvidiafb or rivatv",
        "nouveau [0-9a-f:.]{5,20}: ",
    ),
    "gpu-start-failed": (
        "RmInitAdapter failed",
        "rm_init_adapter failed",
        "osInitNvMapping(:| failed)",
        "Cannot initialize GSP firmware",
        "None of the NVIDIA devices were initialized",
        "NVIDIA probe routine failed for",
        "Can't find an IRQ for your NVIDIA card",
        "failed to copy vbios to system memory",
        "unexpected WPR2 already up",
        "nvidia [0-9a-f:.]{5,20}: probe with driver nvidia failed",
        "nvidia: probe of [0-9a-f:.]{5,20} failed",
        "firmware load for nvidia/[a-z0-9_./]{1,60} failed",
    ),
    "module-refused": (
        "nvidia[a-z_]{0,10}: (version magic|disagrees about version of symbol|Unknown symbol)",
        "Loading of (unsigned )?module (with unavailable key )?is rejected",
        "Lockdown: [a-z]{1,16}: unsigned module loading is restricted",
    ),
    "gpu-lost": ("fallen off the bus and is not responding", "nvidia [0-9a-f:.]{5,20}: Unable to change power state"),
    "uvm-fatal": ("uvm encountered global fatal error",),
    "api-mismatch": ("NVRM: API mismatch",),
    "pcie-fatal": (
        r"severity=Uncorrect(ed|able) \(Fatal\)",
        r"AER: (Multiple )?Uncorrect(ed|able) \(Fatal\)",
        "AER: can't recover",
        "AER: device recovery failed",
    ),
    "pcie-error": (
        r"severity=Uncorrect(ed|able) \(Non-Fatal\)",
        r"AER: (Multiple )?Uncorrect(ed|able) \(Non-Fatal\)",
        "DPC: (containment event|unmasked uncorrectable error)",
    ),
    "oom-killed": (
        r"[Oo]ut of memory: Kill(ed)? process [0-9]{1,9}",
        "oom-kill:constraint=",
        "invoked oom-killer",
    ),
    "program-crashed": (
        rf"({_PROGRAMS})\[[0-9]{{1,9}}\]: segfault at",
        rf"traps: ({_PROGRAMS})\[[0-9]{{1,9}}\] (general protection|trap)",
    ),
    "task-hung": (
        "task [A-Za-z0-9_./:-]{1,40}:[0-9]{1,9} blocked for more than",
        "BUG: soft lockup - CPU#[0-9]{1,5}",
        "hard LOCKUP on cpu",
        "self-detected stall on CPU",
        "rcu_[a-z]{1,10} detected (expedited )?stalls",
    ),
    "disk-failing": (
        "I/O error, dev (nvme|sd|vd|xvd|dm-|md)[a-z0-9]{1,12}",
        r"EXT4-fs error \(device",
        "Remounting filesystem read-only",
        r"XFS \([a-z0-9-]{1,20}\): (Corruption|[a-z ]{0,20}I/O [Ee]rror|Filesystem has been shut down)",
        "nvme nvme[0-9]{1,3}: (controller is down|Device not ready|Disabling device|Removing after probe failure)",
        "nvme nvme[0-9]{1,3}: I/O [0-9a-z() ]{1,30} QID [0-9]{1,5} timeout",
    ),
    "host-memory-fault": (
        r"mce: \[Hardware Error\]: (Machine check|CPU)",
        "EDAC [A-Za-z0-9#_]{1,20}: [0-9]{1,9} UE ",
        "HANDLING MCE MEMORY ERROR",
        "Memory failure: 0x[0-9a-f]{1,16}",
    ),
}
"""Extended regular expressions for grep, by their finding; the first that a line matches counts."""
KERNEL_PATTERN = "|".join(phrase for phrases in RULES.values() for phrase in phrases)
STARTS = ("open-modules", "driver-unfit", "gpu-unpowered", "gpu-window", "gpu-taken", "module-refused")
"""Reasons for which the driver has no GPU: each has a line `RmInitAdapter failed` or a missing GPU in its wake."""
_KINDS = {kind: re.compile("|".join(phrases)) for kind, phrases in RULES.items()}
_NAMED = re.compile(
    r"NVRM|nvidia|nouveau|pcieport|mce:|EDAC|traps:|Memory cgroup|Out of memory|oom-kill|INFO: task|Loading of"
    r"|watchdog:|rcu:|blk_update|I/O error|EXT4-fs|XFS|nvme|Memory failure"
)
_REASON = frozenset([*STARTS, "gpu-start-failed"])
EXPLAINED = frozenset(["gpus-unseen", "driver-not-loaded", "smi-refuses", "nvml-closed", "gpu-lost"])
"""Findings of nvidia-smi that a kernel message explains: they are not reported beside it."""


@dataclass(frozen=True)
class _Line:
    """A line of the log with its kind."""

    kind: str
    message: Message


def kernel_findings(
    lines: list[str], names: Mapping[str, int], are_all_listed: bool, mended: float = 0.0
) -> Iterator[Finding]:
    """Findings of this boot: each kind once per device, with its last line and the number of occurrences.

    `names` are the GPUs' indices by PCI place. With `are_all_listed` nvidia-smi lists every GPU, so that a failed
    start is over. Messages before `mended`, in seconds of the epoch, are resolved.
    """
    alike: dict[tuple[str, str], list[Message]] = {}
    for line in _parsed(lines):
        if not line.message.when or line.message.when > mended:
            alike.setdefault((line.kind, line.message.place), []).append(line.message)
    kinds = {kind for kind, _ in alike}
    for (kind, place), same in alike.items():
        if kind == "gpu-start-failed" and kinds & set(STARTS):
            continue
        evidence = f"{text_of(same[-1])}{f' ({len(same)} times)' if len(same) > 1 else ''}"
        subject = f"GPU {names[place]}" if place in names else (f"device at {place}" if place else "")
        yield finding_of("kernel-past" if are_all_listed and kind in _REASON else kind, evidence, subject)


def shortened(line: str) -> str:
    """The stamp, phrase and PCI place of a line, which an archive may hold; empty for a line without a phrase."""
    stamped, where = STAMP.fullmatch(line), PLACE.search(line)
    kind = next((kind for kind, phrases in _KINDS.items() if phrases.search(line)), "")
    phrase = _KINDS[kind].search(line) if kind else None
    if not phrase:
        return ""
    stamp = f"{stamped[1]} " if stamped else ""
    has_place = where is not None and where[0] not in phrase[0]
    return f"{stamp}{phrase[0]}{f' (PCI:{where[1]})' if where and has_place else ''}"


def without_consequences(findings: list[Finding]) -> list[Finding]:
    """The findings without those of nvidia-smi that another finding explains."""
    ids = {finding.id for finding in findings}
    dropped = EXPLAINED if ids & _REASON else frozenset[str]()
    dropped |= {"api-mismatch"} if "driver-mismatch" in ids else frozenset()
    return [finding for finding in findings if finding.id not in dropped]


def _parsed(lines: list[str]) -> Iterator[_Line]:
    for line in lines:
        stamped = STAMP.fullmatch(line)
        when, text = (float(stamped[1]), stamped[2]) if stamped else (0.0, line)
        kind = next((kind for kind, phrases in _KINDS.items() if phrases.search(text)), "")
        if kind:
            begins = _NAMED.search(text)  # the host's name and the writer's stand before it
            where = PLACE.search(text)
            shown = text[begins.start() :] if begins else text
            yield _Line(kind, Message(when, place_of(where[1]) if where else "", 0, shown))
