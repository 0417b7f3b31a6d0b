"""Findings about the machine and the base of the servers: driver, CDI, disks, clock, units."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from deploy.catalog.drivers import BRANCH_WARNING_DAYS, DRIVER_BRANCHES
from deploy.catalog.holes import holes_in
from deploy.catalog.systems import TOOLKIT_FLOOR
from deploy.catalog.versions import at_least
from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.gpu import gpu_findings, parse_gpus
from deploy.doctor.kernel import kernel_findings, without_consequences
from deploy.doctor.readings import CUT, GONE, LATE, Readings, number
from deploy.doctor.wanted import Wanted
from deploy.doctor.xids import parse_messages, past_findings, xid_findings
from deploy.models.files import FEW_INODES
from deploy.rollout.drift import shown

CLOCK_SECONDS = 60
FULL_PERCENT, LOW_PERCENT = 99, 95
_WHY = {LATE: "no answer in time", CUT: "the answer is too long", GONE: "no answer"}
_NEEDED = ("kernel", "pci", "units", "room")
"""Questions whose commands exit with 0 on every host."""
_SAID_OF_SMI = (
    ("driver-mismatch", "driver/library version mismatch"),
    ("driver-not-loaded", "couldn't communicate with the nvidia driver"),
    ("gpu-lost", "gpu is lost"),
    ("gpu-lost", "unable to determine the device handle"),
    ("gpu-lost", "failed to initialize nvml: gpu is lost"),
    ("driver-not-loaded", "driver not loaded"),
    ("nvml-closed", "failed to initialize nvml: unknown error"),
    ("nvml-closed", "failed to initialize nvml: insufficient permissions"),
    ("nvml-closed", "gpu access blocked by the operating system"),
    ("gpus-unseen", "no devices were found"),
)
"""nvidia-smi's messages on failure (580.159.04), by the finding."""


def unread_findings(readings: Readings) -> Iterator[Finding]:
    """Findings of checks without a whole answer (nvidia-smi has its own), and of a login that is not root."""
    for name, ended in readings.ended.items():
        if ended in _WHY and not (name == "smi" and ended == LATE):
            yield finding_of("unread", f"{name}: {_WHY[ended]}", name, what=name)
        elif name in _NEEDED and ended != "0":
            first_line = next(iter(readings.lines(name)), "nothing")
            yield finding_of("unread", f"{name}: exit status {ended}: {first_line}", name, what=name)
    if readings.has("user") and readings.text("user").strip() != "0":
        yield finding_of("not-root", f"user {readings.text('user')}")


def hardware_findings(readings: Readings, wanted: Wanted, is_deployed: bool) -> Iterator[Finding]:
    """Findings on GPUs and their driver: the driver's recovery actions first, then its messages, then the rest.

    If the kernel's log has the reason of an nvidia-smi finding, only the reason is reported.
    """
    yield from without_consequences(list(_hardware(readings, wanted, is_deployed)))


def _hardware(readings: Readings, wanted: Wanted, is_deployed: bool) -> Iterator[Finding]:
    gpus = parse_gpus(readings.text("smi"))
    names = {gpu.place: gpu.index for gpu in gpus}
    actions = {gpu.place: gpu.value("GPU Recovery Action") for gpu in gpus}
    mended, count = float(number(readings.text("mended"))), max(wanted.gpus, len(gpus))
    for gpu in gpus:
        yield from gpu_findings(gpu, wanted)
    yield from xid_findings(parse_messages(readings.lines("kernel")), names, actions, count, mended)
    are_listed = readings.ended.get("smi") == "0" and 0 < wanted.gpus <= len(gpus)
    yield from kernel_findings(readings.lines("kernel-beside"), names, are_listed, mended)
    yield from past_findings(parse_messages(readings.lines("kernel-before")), count, mended)
    yield from _devices(readings, wanted, len(gpus))
    yield from _driver(readings, wanted, is_deployed)
    for line in readings.lines("gpu-users"):
        yield finding_of("gpu-foreign", line, what=f"process {line}")


def _devices(readings: Readings, wanted: Wanted, seen: int) -> Iterator[Finding]:
    """Findings on the GPUs of the PCI bus, compared with the inventory and with the driver's list."""
    if readings.ended.get("pci") != "0":
        return
    on_bus = [row[0] for row in readings.rows("pci") if row[-1].startswith(("0x0300", "0x0302"))]
    if len(on_bus) != wanted.gpus:
        yield finding_of("gpu-count", f"{len(on_bus)} on the PCI bus, {wanted.gpus} declared")
    if 0 < seen < len(on_bus):
        yield finding_of("gpus-unseen", f"{seen} of {len(on_bus)} in nvidia-smi")


def _driver(readings: Readings, wanted: Wanted, is_deployed: bool) -> Iterator[Finding]:
    if readings.has("nouveau") and is_deployed:
        yield finding_of("nouveau", "nouveau is loaded")
    loaded, library = readings.text("loaded").strip(), readings.text("library").strip()
    if loaded and library and loaded != library:
        yield finding_of("driver-mismatch", f"module {loaded}, libcuda {library}")
    yield from _smi(readings, wanted, is_deployed, is_reported=bool(loaded and library and loaded != library))
    branch = DRIVER_BRANCHES.get(loaded.partition(".")[0])
    if branch and wanted.today != date.min and branch.ends <= wanted.today + timedelta(days=BRANCH_WARNING_DAYS):
        yield finding_of("driver-old", f"driver {loaded}: branch {branch.name} ends on {branch.ends}")


def _smi(readings: Readings, wanted: Wanted, is_deployed: bool, is_reported: bool) -> Iterator[Finding]:
    """The finding of an nvidia-smi that failed, by its exit status and message."""
    ended, text = readings.ended.get("smi", ""), readings.text("smi")
    first = next(iter(readings.lines("smi")), "nothing")
    if ended in (LATE, "124", "137"):
        yield finding_of("gpu-silent", "nvidia-smi -q hangs")
    elif ended == "127":
        if is_deployed and wanted.gpus:
            yield finding_of("driver-missing", first)
    elif ended not in ("", "0", CUT, GONE):
        kind = next((kind for kind, words in _SAID_OF_SMI if words in text.lower()), "smi-refuses")
        if not (kind == "driver-mismatch" and is_reported):
            yield finding_of(kind, first)
    elif ended == "0" and wanted.gpus and not parse_gpus(text):
        yield finding_of("smi-refuses", f"it succeeds and lists no GPU: {first}")


def container_findings(readings: Readings, is_deployed: bool) -> Iterator[Finding]:
    """Findings about containers: CDI specification of the loaded driver, the toolkit's known holes, a traced start."""
    scope = readings.text("ptrace-scope").strip()
    if is_deployed and scope in ("2", "3"):
        yield finding_of("ptrace-scope", f"kernel.yama.ptrace_scope = {scope}")
    loaded, described = readings.text("loaded").strip(), readings.text("cdi").strip()
    if is_deployed and loaded and readings.is_whole("cdi"):
        if not described:
            yield finding_of("cdi-missing", "no libcuda.so in /var/run/cdi/nvidia.yaml or /etc/cdi/nvidia.yaml")
        elif loaded not in described:
            yield finding_of("cdi-stale", f"{described} described, {loaded} loaded")
    toolkit = readings.text("toolkit").strip()
    if re.match(r"[0-9]{1,6}\.", toolkit) and not at_least(toolkit[:40], TOOLKIT_FLOOR):
        known = ", ".join(hole.id for hole in holes_in("container-toolkit", toolkit[:40]))
        yield finding_of(
            "toolkit-old", f"nvidia-container-toolkit {toolkit}, {TOOLKIT_FLOOR} is the first without {known}"
        )


def disk_findings(readings: Readings) -> Iterator[Finding]:
    """Free space, inodes and writability of the file systems that this project writes to."""
    for kind, name in (("disk", "room"), ("inodes", "inodes")):
        for row in readings.rows(name):
            place = next((place for place, cell in enumerate(row) if cell.endswith("%")), 0)
            percent, free = (number(row[place]), row[place - 1]) if place else (0, "")
            full, what = f"{row[-1]}: {percent} % used", row[-1]
            # df rounds up: of a large disk's inodes, hundreds of thousands may be free at 99 %.
            is_counted = kind == "inodes" and free.isdigit()
            if int(free) < FEW_INODES if is_counted else percent >= FULL_PERCENT:
                yield finding_of(f"{kind}-full", full, what, path=what)
            elif percent >= LOW_PERCENT:
                yield finding_of(f"{kind}-low", full, what, what=what)
    if places := readings.lines("unwritable"):
        yield finding_of("read-only", f"{', '.join(places)} read-only")


def package_findings(readings: Readings) -> Iterator[Finding]:
    if holders := readings.lines("apt"):
        yield finding_of("apt-busy", f"process {', '.join(holders)}")
    elif rows := readings.rows("packages"):
        names = [row[1] for row in rows if len(row) == 2]
        yield finding_of("packages-half", f"not configured: {shown(names)}" if names else "dpkg was interrupted")


def clock_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """The host's clock compared with this machine's, and its time service."""
    here = number(readings.text("clock"))
    if here and wanted.after:
        apart = max(wanted.before - here, here - wanted.after, 0)
        if apart > CLOCK_SECONDS:
            yield finding_of("clock-off", f"{apart:,.0f} seconds apart")
    if readings.text("clock-kept").strip() == "no":
        yield finding_of("clock-free", "NTPSynchronized=no")
    if readings.has("boot-wanted"):
        yield finding_of("boot-wanted", readings.text("boot-wanted"))
