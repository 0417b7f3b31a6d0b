"""Findings in the kernel's log: Xid messages by NVIDIA's table, and lines about GPUs that fell off the bus.

Forms of the line: `NVRM: Xid (PCI:0000:01:00): 79, …` and the same without `PCI:` (both in leptonai/gpud's patterns,
read 2026-11-22). Xid 154 carries the driver's recovery action: `… changed from 0x0 (None) to 0x4 (Drain and Reset)`.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.catalog.xids import XIDS
from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.gpu import place_of, recovery_finding
from deploy.doctor.readings import seconds

STAMP = re.compile(r"\s*\[?\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\]?\s+(.*)")
_XID = re.compile(
    r"\bXid \((?:PCI:)?([0-9a-fA-F]{1,8}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4})[^)]{0,64}\):? ([0-9]{1,9})(.*)"
)
PLACE = re.compile(r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})")
_CHANGED = re.compile(r"to (0x[0-9a-fA-F]{1,8})(?: \(([^)]*)\))?")
FALLEN = "fallen off the bus"
ACTIONS = {0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
"""NVML's numbers of the recovery actions. Later drivers have 5 and above, for which the doctor knows no remedy."""
OFF_THE_BUS, RECOVERY = 79, 154
BESIDE = {63: (48, 94, 95), 171: (48,), 172: (48,), 45: tuple(XIDS)}
"""Xids that only add details to another Xid, with the numbers of the latter: NVIDIA's catalogue then names no action
for them."""
LONGEST_TEXT = 200
_GRAVE = ("xid-reset", "xid-boot", "xid-vendor", "off-the-bus")


@dataclass(frozen=True)
class Message:
    """A line of the driver: seconds of the epoch (0 unknown), the GPU's PCI address, the Xid's number, the text."""

    when: float
    place: str
    number: int
    text: str


def parse_messages(lines: list[str]) -> list[Message]:
    """The Xid messages of a log; a line about a GPU off the bus without a number counts as number 0."""
    messages = []
    for line in lines:
        stamped = STAMP.fullmatch(line)
        when, text = (float(stamped[1]), stamped[2]) if stamped else (0.0, line)
        text = text[max(text.find("NVRM"), 0) :]  # the names of the host and of the writing program precede it
        if text.startswith(("NVRM: ", "NVRM ")) and (xid := _XID.search(text)):
            messages.append(Message(when, place_of(xid[1]), int(xid[2]), text))
        elif FALLEN in text.lower():
            where = PLACE.search(text)
            messages.append(Message(when, place_of(where[1]) if where else "", 0, text))
    return messages


def xid_findings(
    messages: list[Message], names: Mapping[str, int], actions: Mapping[str, str], gpus: int, mended: float = 0.0
) -> Iterator[Finding]:
    """Findings of this boot: each number once per GPU, with its last line and the number of occurrences.

    Shapes: `names` are indices, `actions` the recovery actions that nvidia-smi reports now, both by PCI address.
    Units: `mended` is the time at which an operator reported the GPUs as repaired, in seconds of the epoch.
    """
    alike: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        alike.setdefault((message.place, message.number), []).append(message)
    numbered = {place for place, number in alike if number == OFF_THE_BUS}
    for (place, number), same in alike.items():
        last, index = same[-1], names.get(place)
        subject = f"GPU {index}" if index is not None else (f"GPU at {place}" if place else "a GPU")
        evidence = f"{text_of(last)}{_meaning(number)}{f' ({len(same)} times)' if len(same) > 1 else ''}"
        gpu = index if index is not None else (f"{place}.0" if place else "GPU")
        if number == 0 and (place in numbered or (not place and numbered)):
            continue
        if last.when and last.when <= mended:
            yield finding_of("xid-mended", evidence, subject)
        elif beside := _beside(number, place, alike):
            yield finding_of("xid-beside", evidence, subject, what=beside)
        elif number == RECOVERY:
            yield from _recovery(last, evidence, subject, gpu, actions.get(place, ""))
        else:
            yield finding_of(_kind(number, gpus), evidence, subject, gpu=gpu)


def past_findings(messages: list[Message], gpus: int, mended: float = 0.0) -> Iterator[Finding]:
    """The finding of the previous boot, if it had a message whose remedy is more than a restart of the application."""
    new = [message for message in messages if not message.when or message.when > mended]
    grave = [message for message in new if _kind(message.number, gpus) in _GRAVE]
    if grave:
        yield finding_of("xid-last-boot", f"{text_of(grave[-1])} ({len(grave)} such messages)")


def _beside(number: int, place: str, alike: Mapping[tuple[str, int], list[Message]]) -> int:
    """The number of another Xid of the same GPU that this message explains; 0 without such an Xid."""
    numbers = [other_number for other_place, other_number in alike if other_place == place]
    return next((known for known in BESIDE.get(number, ()) if known != number and known in numbers), 0)


def _meaning(number: int) -> str:
    return f" [{XIDS[number].means}]" if number in XIDS else ""


def _kind(number: int, gpus: int) -> str:
    if number in (0, OFF_THE_BUS):
        return "off-the-bus"
    row = XIDS.get(number)
    if row is None:
        return "xid-unknown"
    if row.remedy in ("reset", "boot", "vendor"):
        return f"xid-{row.remedy}" if row.stops(gpus) else "xid-watch"
    if row.remedy == "application":
        return "xid-application"
    return "xid-watch" if row.action == "ignore" else "xid-ask"


def _recovery(message: Message, evidence: str, subject: str, gpu: object, now: str) -> Iterator[Finding]:
    """The finding on a message's recovery action; an action that nvidia-smi no longer reports is a past one."""
    changed = _CHANGED.search(message.text)
    code = int(changed[1], 16) if changed else -1
    # By the action's number, because later drivers may use other words in the brackets.
    then = ACTIONS.get(code, (changed[2] if changed else "") or f"action {code}")
    if code == 0:
        return
    if now.strip().lower() == "none":
        yield finding_of("recovery-past", evidence, subject)
    elif now.strip().lower() in ("", "n/a", "[n/a]"):
        finding = recovery_finding(then, gpu, subject, evidence)
        yield finding or finding_of("recovery-unknown", evidence, subject)


def text_of(message: Message) -> str:
    """The message as evidence: its time, and its text up to LONGEST_TEXT characters."""
    try:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC ", time.gmtime(seconds(message.when))) if message.when else ""
    except (ValueError, OverflowError, OSError):
        stamp = ""
    text = message.text if len(message.text) <= LONGEST_TEXT else message.text[: LONGEST_TEXT - 1] + "…"
    return f"{stamp}{text}"
