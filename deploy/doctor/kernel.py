"""Findings in the kernel's log beside Xid messages: driver, NVSwitches, PCIe, memory, disks, network, and crashes.

`deploy/doctor/phrases_kernel.py` holds the phrases and their sources. A message of several lines comes as several
messages; the last may lack a time stamp.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.gpu import place_of
from deploy.doctor.phrases_kernel import RULES
from deploy.doctor.xids import PLACE, STAMP, Message, text_of

STARTS = ("open-modules", "driver-unfit", "gpu-unpowered", "gpu-window", "gpu-taken", "module-refused")
"""Reasons for which the driver has no GPU: a line `RmInitAdapter failed` or a missing GPU follows each of them."""
_KINDS = {kind: re.compile("|".join(phrases)) for kind, phrases in RULES.items()}
_NAMED = re.compile(
    r"NVRM|nvidia|nouveau|pcieport|mce:|EDAC|traps:|Memory cgroup|Out of memory|oom-kill|INFO: task|Loading of"
    r"|watchdog:|rcu:|blk_update|I/O error|EXT4-fs|XFS|nvme|Memory failure|BUG:|DMAR|AMD-Vi|NETDEV|mlx5|nf_conntrack"
    r"|neighbour|TCP:|cgroup:|thermal|CPU|page allocation|nfs:|Lustre|clocksource|apparmor|audit:|BTRFS|JBD2|md"
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

    `names` are the GPUs' indices by PCI address. With `are_all_listed` nvidia-smi lists every GPU, so that a failed
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
    """The stamp, phrase and PCI address of a line, which an archive may hold; empty for a line without a phrase."""
    stamped, where = STAMP.fullmatch(line), PLACE.search(line)
    kind = next((kind for kind, phrases in _KINDS.items() if phrases.search(line)), "")
    phrase = _KINDS[kind].search(line) if kind else None
    if not phrase:
        return ""
    stamp = f"{stamped[1]} " if stamped else ""
    has_place = where is not None and where[0] not in phrase[0]
    return f"{stamp}{phrase[0]}{f' (PCI:{where[1]})' if where and has_place else ''}"


def without_consequences(findings: list[Finding]) -> list[Finding]:
    """The findings, except for findings of nvidia-smi that another finding explains."""
    ids = {finding.id for finding in findings}
    dropped = EXPLAINED if ids & _REASON else frozenset[str]()
    dropped |= {"api-mismatch"} if "driver-mismatch" in ids else frozenset()
    dropped |= (
        {"gsp-crashed", "gpu-reset-wanted"}
        if ids & {"recovery-reset", "xid-reset", "xid-boot", "xid-vendor", "off-the-bus"}
        else frozenset()
    )
    return [finding for finding in findings if finding.id not in dropped]


def _parsed(lines: list[str]) -> Iterator[_Line]:
    for line in lines:
        stamped = STAMP.fullmatch(line)
        when, text = (float(stamped[1]), stamped[2]) if stamped else (0.0, line)
        kind = next((kind for kind, phrases in _KINDS.items() if phrases.search(text)), "")
        if kind:
            begins = _NAMED.search(text)  # the names of the host and of the writing program precede it
            where = PLACE.search(text)
            shown = text[begins.start() :] if begins else text
            yield _Line(kind, Message(when, place_of(where[1]) if where else "", 0, shown))
