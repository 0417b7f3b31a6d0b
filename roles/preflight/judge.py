"""Compares preflight's facts with the slice. Pure; every finding is a Refusal, and none hides another."""

from collections.abc import Iterator

from deploy.catalog import SYSTEMS
from deploy.catalog.versions import at_least
from deploy.models.files import FEW_INODES, FEW_MIB, IMAGE_UNPACK_FACTOR, distinct_images
from deploy.refusals import PREFLIGHT, Refusal, source
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.facts import HostFacts
from roles.cards import not_ours_to_cut
from roles.preflight import haproxy, on_host, origins, own_models
from roles.preflight.defaults import Defaults
from roles.preflight.docker import flags_twice, foreign_docker, other_file
from roles.preflight.network import ports, reachable
from roles.preflight.origins import driver_origins, keep_line

GPU_CLASSES = ("0x0300", "0x0302")
SWITCH_CLASS = "0x0680"


def judge(facts: HostFacts, mine: Slice, chosen: Defaults, control_seconds: float) -> list[Refusal]:
    """Every finding. `control_seconds` is the control machine's clock at the moment of asking."""
    return [
        *system(facts, mine),
        *hardware(facts, mine),
        *room(facts, mine, chosen),
        *on_host.on_host(facts, mine),
        *own_models.own_models(facts, mine),
        *clock(facts, mine, chosen, control_seconds),
        *driver(facts, mine),
        *driver_origins(facts, mine),
        *cut(facts, mine),
        *confinement(facts, mine),
        *foreign_docker(facts, mine),
        *flags_twice(facts, mine),
        *other_file(facts, mine),
        *(
            problem
            for unit in haproxy.units_of(mine)[:1]
            for problem in haproxy.foreign_haproxy(facts, mine.host, unit)
        ),
        *ports(facts, mine),
        *(reachable(facts, mine) if chosen.check_network else ()),
    ]


def notes(facts: HostFacts, mine: Slice) -> Iterator[str]:
    """Sentences that an operator may want to read first, and that do not stop the run."""
    if facts.value("nouveau") and mine.driver.manage:
        yield "nouveau drives the GPU; it will be kept away, and the host reboots once"
    if facts.value("secure-boot") and mine.driver.source == "canonical":
        yield "Secure Boot is on; Canonical's modules are signed for it"
    if facts.value("secure-boot") and mine.driver.source == "nvidia" and facts.value("enrolled"):
        yield "Secure Boot is on; modules built on this host are signed with its enrolled key"
    yield from origins.notes(facts, mine)


def refusal(
    mine: Slice | BalancerSlice | MonitorSlice, problem: str, actual: str, wanted: str, attempt: str, kind: str
) -> Refusal:
    """A finding in the common shape, with the host first, because many hosts report at once."""
    facts = {"found": actual or "nothing", "wanted": wanted}
    return Refusal(f"{mine.host}: {problem}", facts=facts, attempt=attempt, state=PREFLIGHT, kind=kind)


def system(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """OS, architecture, kernel flavour, systemd and cgroups."""
    os, declared = facts.value("os"), mine.machine.os
    if os != declared:
        yield refusal(
            mine, "the system differs from the declared one", os, declared, f"os={source(os)} in its Machine", "os"
        )
    if facts.value("architecture") != "x86_64":
        actual = facts.value("architecture")
        yield refusal(
            mine,
            "the architecture differs from the declared one",
            actual,
            "x86_64",
            "ask for an x86-64 VM",
            "architecture",
        )
    kernel, flavour = facts.value("kernel"), mine.machine.kernel_flavour.split("-")[0]
    if os.startswith("ubuntu") and not kernel.endswith(f"-{flavour}"):
        attempt = f"kernel_flavour={source(kernel.rsplit('-', 1)[-1])} in its Machine"
        yield refusal(
            mine, "the kernel's flavour differs from the declared one", kernel, f"…-{flavour}", attempt, "kernel"
        )
    elif os == declared and _is_hardware_enablement(facts, mine):
        # Modules of the wrong flavour would bring their older kernel, which the boot loader does not choose.
        series = f"{SYSTEMS[os].kernel}.…-generic"
        attempt = f'kernel_flavour="generic-hwe-{os.split("-")[1]}" in its Machine'
        yield refusal(mine, "this is Ubuntu's hardware enablement kernel", kernel, series, attempt, "kernel")
    if not facts.value("systemd"):
        yield refusal(mine, "systemd does not run this host", "another init", "systemd", "use a VM image", "systemd")
    if facts.value("cgroup") != "cgroup2fs":
        attempt = "remove systemd.unified_cgroup_hierarchy=0 from the kernel command line and reboot"
        yield refusal(mine, "control groups are not version 2", facts.value("cgroup"), "cgroup2fs", attempt, "cgroup")


def _is_hardware_enablement(facts: HostFacts, mine: Slice) -> bool:
    """True if `generic` is declared, a newer series runs, and Canonical's modules would be installed for it."""
    plain = mine.driver.manage and mine.driver.source == "canonical" and mine.machine.kernel_flavour == "generic"
    return (
        plain
        and not facts.value("loaded")
        and not facts.value("kernel").startswith(f"{SYSTEMS[mine.machine.os].kernel}.")
    )


def hardware(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """Findings on GPUs by PCI id and number, and on NVSwitches; `room` judges memory."""
    devices = [line.split() for line in facts.value("pci").splitlines()]
    gpus = [pci for _, pci, kind in devices if kind.startswith(GPU_CLASSES)]
    others = sorted(set(gpus) - {mine.pci_id})
    if others:
        wanted = f"{mine.pci_id} ({mine.machine.gpu}, SM {mine.sm})"
        attempt = "declare the GPU it has, or ask the provider for the right VM"
        yield refusal(mine, "this machine has another GPU", ", ".join(others), wanted, attempt, "gpu")
    elif len(gpus) != mine.machine.gpus:
        attempt = f"gpus={len(gpus)} in its Machine" if gpus else "ask the provider for a VM with the GPU attached"
        actual, wanted = f"{len(gpus)} on the PCI bus", f"{mine.machine.gpus} x {mine.pci_id}"
        yield refusal(mine, "the number of GPUs differs", actual, wanted, attempt, "gpu-count")
    switches = sum(kind.startswith(SWITCH_CLASS) for _, _, kind in devices)
    if bool(switches) != mine.machine.nvswitch:
        attempt = f"nvswitch={bool(switches)} in its Machine"
        wanted = "some" if mine.machine.nvswitch else "none"
        yield refusal(
            mine, "the NVSwitches differ from the declaration", f"{switches} visible", wanted, attempt, "nvswitch"
        )


def room(facts: HostFacts, mine: Slice, chosen: Defaults) -> Iterator[Refusal]:
    """Findings on memory, and on writable disk for the missing parts."""
    if places := facts.value("read-only").splitlines():
        attempt = "dmesg | grep -i remount on the host says why; repair the disk and mount it writable"
        yield refusal(
            mine, "a file system is read-only", f"{', '.join(places)} read-only", "writable", attempt, "read-only"
        )
    for mount, free_mib in _free_mib(facts):
        if free_mib < FEW_MIB:
            attempt = f"du -xm --max-depth=2 {mount} | sort -n | tail on the host, make room or grow the volume"
            actual, wanted = f"{free_mib} MiB free", f"{FEW_MIB} MiB for a release and its container"
            yield refusal(mine, f"the file system {mount} is full", actual, wanted, attempt, "disk-full")
    inodes = facts.value("inodes").split()
    # A file system without a fixed number of inodes, such as btrfs, has 0 of 0.
    if len(inodes) >= 6 and inodes[1].isdigit() and int(inodes[1]) and int(inodes[3]) < FEW_INODES:
        attempt = f"du -x --inodes --max-depth=4 {inodes[5]} | sort -n | tail on the host names the directory to clear"
        actual, wanted = f"{int(inodes[3]):,} of {int(inodes[1]):,} free (df -i)", f"{FEW_INODES:,}"
        yield refusal(mine, f"the file system {inodes[5]} has no inodes left", actual, wanted, attempt, "inodes")
    memory_mib = int(facts.value("memory-kib") or 0) // 1024
    if memory_mib * 100 < mine.machine.memory_mib * chosen.memory_percent:
        attempt = f"memory_mib={memory_mib} in its Machine, or a larger VM"
        actual, wanted = f"{memory_mib:,} MiB", f"{mine.machine.memory_mib:,} MiB"
        yield refusal(mine, "the machine has less memory than declared", actual, wanted, attempt, "memory")
    images = [("image", mine.image), *((f"image-{number}", more) for number, more in enumerate(mine.runtime_images))]
    has_all = facts.value("weights") and all(facts.value(name) for name, _ in images)
    free_mib, needed_mib = free_disk_mib(facts, mine), mine.disk_needed_mib
    # Images that an interrupted run has pulled already use their space: the next run must not require it again.
    counted = distinct_images(image for _, image in images)
    present = (image for name, image in images if image in counted and (facts.value(name) or facts.value("pulling")))
    needed_mib -= sum(IMAGE_UNPACK_FACTOR * image.size_mib for image in present)
    used = facts.value("used-mib") or "0"
    # Unknown usage of a slow disk is no reason to refuse: a transfer without room fails with a clear message.
    if not has_all and used != "unknown" and free_mib + int(used) < needed_mib:
        actual, wanted = f"{free_mib // 1024:,} GiB free", f"{needed_mib // 1024:,} GiB"
        attempt = "grow the volume, or declare a blank data_disk in its Machine"
        yield refusal(mine, "the disk has too little space for image and weights", actual, wanted, attempt, "disk")


def free_disk_mib(facts: HostFacts, mine: Slice) -> int:
    """MiB free for data: a declared disk that is still blank counts whole, two file systems are added up."""
    rows, disk = _free_mib(facts), mine.data_disk()
    is_blank = disk and all(mount != disk.mount for mount, _ in rows)
    return sum(free for _, free in rows) + (int(facts.value("disk-bytes") or 0) // 2**20 if is_blank else 0)


def _free_mib(facts: HostFacts) -> list[tuple[str, int]]:
    """Mount and free MiB of each file system of the data directory and of Docker's."""
    rows = {row[0]: row for row in (facts.value(name).split() for name in ("room", "docker-room")) if len(row) >= 6}
    return [(row[5], int(row[3])) for row in rows.values()]


def clock(
    facts: HostFacts, mine: Slice | BalancerSlice | MonitorSlice, chosen: Defaults, control_seconds: float
) -> Iterator[Refusal]:
    """A finding if the clocks of the host and the control machine differ too much."""
    apart = round(abs(float(facts.value("clock") or 0) - control_seconds))
    if apart > chosen.clock_seconds:
        attempt = "timedatectl set-ntp true on the host (or correct the clock of the machine that runs pyinfra)"
        wanted = f"at most {chosen.clock_seconds} seconds"
        yield refusal(mine, "its clock differs from this machine's", f"{apart:,} seconds", wanted, attempt, "clock")


def driver(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """Refusals for conditions in which the driver role would fail, before the first change."""
    loaded, manage = facts.value("loaded").strip(), mine.driver.manage
    if not manage and not (loaded and at_least(loaded, mine.driver.floor)):
        problem = f"driver {loaded} is too old for {mine.image.reference}" if loaded else "no NVIDIA driver is loaded"
        attempt = "let the role manage it: driver = Driver(manage=True)"
        yield refusal(mine, problem, loaded, f"{mine.driver.floor} or newer", attempt, "driver-floor")
    if manage and facts.value("runfile"):
        keeps = keep_line(facts, mine)
        attempt = f"{keeps}; or nvidia-uninstall and reboot" if keeps else "nvidia-uninstall on the host, and reboot"
        actual = facts.value("runfile").splitlines()[0]
        yield refusal(mine, "the driver came from NVIDIA's runfile", actual, "packages", attempt, "runfile-driver")
    unsigned = manage and not loaded and mine.driver.source == "nvidia" and not facts.value("enrolled")
    if facts.value("secure-boot") and unsigned:
        attempt = "turn Secure Boot off, enrol the dkms key on the console, or on Ubuntu Driver(source='canonical')"
        actual, wanted = "Secure Boot on, no enrolled key", "modules the firmware trusts"
        yield refusal(
            mine, "the kernel would reject a module built on the host", actual, wanted, attempt, "secure-boot"
        )
    if facts.value("confidential"):
        actual = facts.value("confidential").splitlines()[0]
        attempt = "use a VM without confidential computing; it has not been run on one yet"
        yield refusal(mine, "this is a confidential VM", actual, "none", attempt, "confidential")
    if facts.value("gpu-users"):
        actual, attempt = "; ".join(facts.value("gpu-users").splitlines()), "stop these processes, or use another host"
        yield refusal(mine, "other programs use the GPU", actual, "an idle GPU", attempt, "gpu-in-use")


def confinement(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """Refusals of hosts that prevent two protections of a server: against tracing, and of its ports against users.

    A gateway confines its reader of foreign templates by a filter of system calls.
    """
    scope = facts.value("ptrace-scope")
    if mine.servers and scope in ("2", "3"):
        files = facts.value("ptrace-files").splitlines()
        attempt = "sysctl " + " and in ".join(["kernel.yama.ptrace_scope=1 on the host", *files])
        if scope == "3":  # the kernel takes no lower value until it boots
            attempt = (
                f"kernel.yama.ptrace_scope = 1 in {' and in '.join(files) or '/etc/sysctl.d'}, and reboot the host"
            )
        wanted = "at most 1: Triton's launch hides the admin key by tracing its own start"
        actual = f"kernel.yama.ptrace_scope = {scope}"
        yield refusal(mine, "processes may not trace their own children", actual, wanted, attempt, "ptrace-scope")
    if mine.servers and facts.value("owner-match") == "absent":
        kernel = mine.machine.kernel_flavour if facts.value("os").startswith("ubuntu") else "amd64"
        attempt = f"apt-get install linux-image-{kernel} on the host, and reboot into that kernel"
        actual, wanted = f"{facts.value('kernel')} without xt_owner", "it keeps the host's users from Triton's ports"
        yield refusal(mine, "the kernel cannot match a connection to its user", actual, wanted, attempt, "owner-match")
    if mine.gateway and facts.value("seccomp") == "absent":
        actual, wanted = f"{facts.value('kernel')} without CONFIG_SECCOMP_FILTER", "filters that answer with an error"
        attempt = "boot the distribution's own kernel, or remove the gateway from this host: gateway=None"
        yield refusal(mine, "the kernel does not support filters of system calls", actual, wanted, attempt, "seccomp")


def cut(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    for cut in () if mine.driver.manage else not_ours_to_cut(facts, mine, PREFLIGHT):
        problem = f"{mine.host}: {cut.problem}"
        yield Refusal(problem, facts=cut.facts, attempt=cut.attempt, state=cut.state, kind=cut.kind)
