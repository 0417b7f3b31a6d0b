"""Findings from `nvidia-smi -q`, for each GPU; the driver's own recovery action comes first.

Labels and their nesting were read from an H100 80GB HBM3 with driver 580.159.04 (tests/golden/card/query.txt,
2026-11-22). A value that the driver does not report is not a finding.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import number
from deploy.doctor.wanted import Wanted

_HEAD = re.compile(r"GPU ([0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}(?:\.[0-9A-Fa-f])?)\s*")
RECOVERIES = {
    "none": "",
    "reset": "recovery-reset",
    "reboot": "recovery-reboot",
    "drain p2p": "recovery-drain",
    "drain and reset": "recovery-drain",
}
"""The finding of each recovery action that nvidia-smi prints (driver 565 to 580); any other word counts as unknown."""
_BRAKES = (
    ("thermal-brake", "Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown"),
    ("thermal-brake", "Clocks Event Reasons/SW Thermal Slowdown"),
    ("power-brake", "Clocks Event Reasons/HW Slowdown/HW Power Brake Slowdown"),
)
_VOLATILE = ("DRAM Uncorrectable", "SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED", "SRAM Uncorrectable")
BAR1_PERCENT = 95
FABRIC_WELL = ("completed", "n/a", "")


@dataclass(frozen=True)
class Gpu:
    """A GPU of `nvidia-smi -q`: its index in the listing, its PCI address, and every value by its path of labels."""

    index: int
    place: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"GPU {self.index}"

    def value(self, path: str) -> str:
        return self.values.get(path, "")

    def last(self, label: str) -> str:
        return next((value for path, value in self.values.items() if path.rpartition("/")[2] == label), "")


def place_of(address: str) -> str:
    """A PCI address as nvidia-smi (00000000:01:00.0) or the kernel (0000:01:00) writes it, in one form."""
    domain, _, rest = address.strip().lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest.split('.')[0]}"


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of one `nvidia-smi -q`, in its order; without an incomplete one at the end."""
    gpus: list[Gpu] = []
    values: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if head := _HEAD.fullmatch(line):
            values, above = {}, []
            gpus.append(Gpu(len(gpus), place_of(head[1]), values))
            continue
        if not gpus or not line.strip():
            continue
        indent, (label, _, value) = len(line) - len(line.lstrip()), line.partition(" : ")
        above = [(level, name) for level, name in above if level < indent] + [(indent, label.strip())]
        if value or " : " in f"{line} ":
            values["/".join(name for _, name in above)] = value.strip()
    return tuple(gpus)


def gpu_findings(gpu: Gpu, wanted: Wanted) -> Iterator[Finding]:
    """Faults of one GPU by nvidia-smi, the driver's own verdict first."""
    yield from _recovery(gpu)
    yield from _memory(gpu)
    yield from _speed(gpu)
    yield from _modes(gpu, wanted)


def recovery_finding(action: str, gpu: object, subject: str, evidence: str) -> Finding | None:
    """The finding of a recovery action in nvidia-smi's words; None if the driver requests or names no action."""
    word = action.strip().lower()
    if word in ("", "n/a", "[n/a]"):
        return None
    kind = RECOVERIES.get(word, "recovery-unknown")
    return finding_of(kind, evidence, subject, gpu=gpu) if kind else None


def _recovery(gpu: Gpu) -> Iterator[Finding]:
    action = gpu.value("GPU Recovery Action")
    if finding := recovery_finding(action, gpu.index, gpu.name, f"GPU Recovery Action: {action}"):
        yield finding


def _memory(gpu: Gpu) -> Iterator[Finding]:
    if _is_yes(failed := gpu.value("Remapped Rows/Remapping Failure Occurred")):
        yield _says(gpu, "remap-failed", "Remapping Failure Occurred", failed)
    for path in ("Remapped Rows/Pending", "Retired Pages/Pending Page Blacklist"):
        if _is_yes(pending := gpu.value(path)):
            yield _says(gpu, "remap-pending", path, pending)
    for label in ("Channel Repair Pending", "TPC Repair Pending"):
        if _is_yes(pending := gpu.last(label)):
            yield _says(gpu, "repair-pending", label, pending)
    if _is_yes(exceeded := gpu.last("SRAM Threshold Exceeded")):
        yield _says(gpu, "sram-threshold", "SRAM Threshold Exceeded", exceeded)
    for label in _VOLATILE:
        if number(errors := gpu.value(f"ECC Errors/Volatile/{label}")):
            yield _says(gpu, "ecc-uncorrected", f"ECC Errors/Volatile/{label}", errors)
    if number(rows := gpu.value("Remapped Rows/Uncorrectable Error")):
        yield _says(gpu, "rows-remapped", "Remapped Rows/Uncorrectable Error", rows)
    now, then = gpu.value("ECC Mode/Current"), gpu.value("ECC Mode/Pending")
    if now == "Disabled" == then:
        yield _says(gpu, "ecc-off", "ECC Mode", now)
    elif now and then and now != then:
        yield _says(gpu, "ecc-pending", "ECC Mode", f"{now}, {then} is pending")


def _says(gpu: Gpu, kind: str, label: str, value: str) -> Finding:
    return finding_of(kind, f"{label}: {value}", gpu.name, gpu=gpu.index)


def _speed(gpu: Gpu) -> Iterator[Finding]:
    braked = [(kind, path) for kind, path in _BRAKES if gpu.value(path) == "Active"]
    for kind, path in braked:
        yield finding_of(kind, f"{path.rpartition('/')[2]}: Active", gpu.name, gpu=gpu.index)
    is_named = any("HW Slowdown" in path for _, path in braked)
    if gpu.value("Clocks Event Reasons/HW Slowdown") == "Active" and not is_named:
        yield finding_of("hardware-slowdown", "HW Slowdown: Active", gpu.name, gpu=gpu.index)
    # An idle GPU takes the link to a lower generation by itself, never to fewer lanes.
    width, most = (gpu.value(f"PCI/GPU Link Info/Link Width/{which}") for which in ("Current", "Max"))
    if 0 < number(width) < number(most):
        yield finding_of("pcie-width", f"Link Width: {width} of {most}", gpu.name, gpu=gpu.index)
    used, total = (number(gpu.value(f"BAR1 Memory Usage/{which}")) for which in ("Used", "Total"))
    if total and used * 100 >= total * BAR1_PERCENT:
        yield finding_of("bar1-full", f"BAR1 Memory Usage: {used} of {total} MiB", gpu.name, gpu=gpu.index)


def _modes(gpu: Gpu, wanted: Wanted) -> Iterator[Finding]:
    if wanted.manages_driver and gpu.value("Persistence Mode") == "Disabled":
        yield finding_of("persistence-off", "Persistence Mode: Disabled", gpu.name)
    now, then = gpu.value("MIG Mode/Current"), gpu.value("MIG Mode/Pending")
    if now in ("Enabled", "Disabled"):
        if then in ("Enabled", "Disabled") and now != then:
            yield finding_of("mig-pending", f"MIG Mode: {now}, {then} is pending", gpu.name)
        elif (now == "Enabled") != wanted.mig:
            yield finding_of("mig-differs", f"MIG Mode: {now}", gpu.name)
    state, status = gpu.value("Fabric/State"), gpu.value("Fabric/Status")
    # Without NVSwitches the state N/A is healthy.
    if state.lower() not in FABRIC_WELL or (wanted.nvswitch and status not in ("Success", "N/A", "")):
        yield finding_of("fabric", f"Fabric: {state}, {status or 'no status'}", gpu.name)


def _is_yes(text: str) -> bool:
    return text.lower() == "yes"
