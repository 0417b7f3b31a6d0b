"""The declared machine: a known OS, a known GPU, and a combination that can work."""

import difflib
import re
from collections.abc import Iterator

from deploy.catalog import SYSTEMS
from deploy.catalog.mig import profiles_of
from deploy.catalog.names import nearest, offer
from deploy.catalog.number_ranges import RANGES
from deploy.models.cards import declared_card
from deploy.models.files import ROOT
from deploy.refusals import Refusal, refuse, shortened
from deploy.spec import DataDisk, Host
from deploy.validation.cards import X86, card_meant, card_problem, card_problems, with_count

FLAVOURS = (
    *("generic", "aws", "azure", "gcp", "gke", "oracle", "ibm", "kvm", "virtual", "lowlatency", "nvidia", "intel"),
    *("raspi", "cloud", "amd64", "arm64", "rt", "realtime", "oem", "fips", "server", "common"),
)
"""First parts of the names of kernels of Ubuntu and Debian."""
WITHOUT_GPU = ("", "none", "no", "cpu", "cpu-only", "without")
"""Words that declare a machine without a card."""
FLAVOUR = re.compile(r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*")
"""Endings of kernel and driver packages' names: generic, aws, generic-hwe-24.04, cloud-amd64."""
DEVICE = re.compile(r"/dev(?:/[A-Za-z0-9][A-Za-z0-9._:+@=-]*)+")
"""A path below /dev as udev names it, no component of which is `..` (paths under by-id have colons and plus signs)."""
NO_DISK = re.compile(r"/dev/(loop|ram|zram|sr|fd|nbd|tty|nvidia|null|zero|mem)[0-9a-z]*")
"""Devices that are not disks, or that lose their content at a boot."""
OF_CONTENT = re.compile(r"/dev/disk/by-(?:uuid|label|partuuid|partlabel)/")
"""Names of file systems and partitions, which a blank disk does not have."""
RDMA_DEVICE = re.compile(r"(?:mlx[45]_|bnxt_re|irdma|rdmap|rocep)[0-9]+(?:s[0-9f]+)?(?::[0-9]+)?")
"""Names of RDMA devices, as `ibstat` and NCCL_IB_HCA have them."""
INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
"""A network interface's name: 15 bytes at most in Linux."""

OTHER_RELEASE = re.compile(r"(debian|ubuntu)-(1[4-9]|[2-9][0-9])(\.(04|10))?")
"""A release of a known system that the catalog lacks: not a typing error, so no near name is offered."""


def machine_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the declared machine and in the software installed on it."""
    yield from _system(host)
    yield from _gpu(host)
    yield from _sizes(host)
    yield from _docker(host)
    yield from _secure_boot(host)
    fabric = host.machine.fabric
    if fabric and RDMA_DEVICE.fullmatch(fabric.interface):
        yield refuse(
            "fabric-interface",
            f"{shortened(fabric.interface)} is an RDMA device; the interface with its IP address has another name",
            where="machine.fabric.interface",
            seen=shortened(fabric.interface),
            wanted="a name as `ip link` shows it on the host: ib0, eth1, enp3s0f0",
            attempt=f"on the host: ls /sys/class/infiniband/{fabric.interface.partition(':')[0]}/device/net; "
            'then interface="ib0", or the name that it prints',
        )
    elif fabric and not INTERFACE.fullmatch(fabric.interface):
        yield refuse(
            "fabric-interface",
            "the interface of the fabric is not a valid name of a network interface",
            where="machine.fabric.interface",
            seen=shortened(fabric.interface),
            wanted="a name as `ip link` shows it on the host, of 15 characters at most: ib0, eth1, enp3s0f0",
            attempt='interface="ib0"',
        )
    if host.machine.data_disk:
        yield from _data_disk(host.machine.data_disk)
    if host.machine.confidential:
        yield refuse(
            "confidential-mode",
            "confidential-computing mode was never tested with this project",
            where="machine.confidential",
            seen="True",
            wanted="False",
            attempt="ask the provider for the same VM without confidential computing",
        )


def _system(host: Host) -> Iterator[Refusal]:
    if host.machine.os not in SYSTEMS:
        yield refuse(
            "unknown-os",
            f"{host.machine.os} is not provisioned by this project",
            where="machine.os",
            seen=repr(host.machine.os),
            wanted=f"one of {', '.join(SYSTEMS)}",
            attempt=f'os="{host.machine.gpu}", gpu="{host.machine.os}"'
            if host.machine.gpu in SYSTEMS and host.machine.os in X86
            else f"known: {', '.join(sorted(SYSTEMS))}"
            if OTHER_RELEASE.fullmatch(host.machine.os)
            else offer(host.machine.os, SYSTEMS),
        )
    flavour = host.machine.kernel_flavour
    if len(flavour) > 64 or not FLAVOUR.fullmatch(flavour):
        yield refuse(
            "kernel-flavour",
            "this cannot be a kernel flavour, which is a part of package names",
            where="machine.kernel_flavour",
            seen=shortened(flavour),
            wanted="lower-case letters, digits, dashes and dots: generic, aws, generic-hwe-24.04, cloud-amd64",
            attempt="the part after the last number in the host's uname -r, or no kernel_flavour for generic",
        )
    elif meant := _flavour_meant(flavour):
        yield refuse(
            "kernel-flavour",
            f"no package of kernel headers is known for the flavour {flavour}",
            where="machine.kernel_flavour",
            seen=repr(flavour),
            wanted="the part after the last number in the host's uname -r",
            attempt=f"did you mean `{meant}`?",
        )


def _flavour_meant(flavour: str) -> str:
    """The known flavour that was meant; empty for a known flavour, and for a text without resemblance to one."""
    first = flavour.partition("-")[0]
    near = difflib.get_close_matches(first, FLAVOURS, n=1, cutoff=0.75)
    return f"{near[0]}{flavour[len(first) :]}" if near and first not in FLAVOURS else ""


def _gpu(host: Host) -> Iterator[Refusal]:
    name, row = host.machine.gpu, declared_card(host.machine)
    yield from card_problems(host)
    if host.machine.card:
        return
    if "mig" in name.lower():
        before, _, behind = name.lower().partition("mig")
        card = card_meant(before.strip(" -_"))[0]
        profiles = [row.name for row in profiles_of(card or X86[0])]
        profile = nearest(behind.strip(" -_"), profiles) or "3g.40gb"
        yield refuse(
            "mig",
            "gpu names a MIG instance: gpu takes the card, and mig takes its instances",
            where="machine.gpu",
            seen=repr(name),
            wanted="a row of catalog.GPUS in gpu, and MIG profiles in machine.mig",
            attempt=f'gpu="{card or X86[0]}", mig=("{profile}",)'
            if profiles
            else f'gpu="{card}", whole: the catalog has no MIG profiles of it',
        )
    elif name.lower() in WITHOUT_GPU:
        yield refuse(
            "no-gpus",
            "the machine is declared without a GPU, and every server needs one: driver, image and memory are planned "
            "for a card, even if all encoders run on the CPU",
            where="machine.gpu" if host.machine.gpus > 0 else "machine.gpus",
            seen=repr(name) if host.machine.gpus > 0 else f"gpu={name!r}, gpus={host.machine.gpus}",
            wanted='a row of catalog.GPUS, and device="cpu" for encoders that leave its memory to an LLM',
            attempt='gpu="h100-80", or move the encoders into a GPU host\'s server with device="cpu"',
        )
    elif row is None and not (name in SYSTEMS and host.machine.os in X86):  # swapped, as the other refusal says
        yield refuse(
            "unknown-gpu",
            card_problem(name),
            where="machine.gpu",
            seen=repr(name),
            wanted="a row of catalog.GPUS, which has its PCI id, SM and MiB; or card=GPU(…), which declares them",
            attempt=with_count(name),
        )
    elif row is not None and row.platform != "x86_64":
        yield refuse(
            "platform",
            f"{row.title} belongs to machines with an {row.platform} processor, and the images here are for x86_64",
            where="machine.gpu",
            seen=repr(name),
            wanted="a card of an x86_64 machine",
            attempt=f"known: {', '.join(X86)}",
        )


def _sizes(host: Host) -> Iterator[Refusal]:
    count = host.machine.gpus
    if count < 1 and host.machine.gpu.lower() not in WITHOUT_GPU:
        yield refuse(
            "no-gpus",
            f"a machine with {count} GPUs cannot serve",
            where="machine.gpus",
            seen=str(count),
            wanted="1 or more",
            attempt="Machine(gpus=1)",
        )
    for field in ("memory_mib", "disk_mib"):
        if (size := getattr(host.machine, field)) < 0:
            yield refuse(
                "negative-size",
                f"a machine cannot have {size:,} MiB",
                where=f"machine.{field}",
                seen=str(size),
                wanted="MiB of the machine, or 0 if unknown: preflight then does not compare it",
                attempt=f"{field}={-size}" if RANGES["Machine"][field].takes(-size) else f"leave {field} out",
            )


def _docker(host: Host) -> Iterator[Refusal]:
    system = SYSTEMS.get(host.machine.os)
    if system and host.docker.source == "distribution" and not system.has_cdi:
        yield refuse(
            "docker-without-cdi",
            f"docker.io {system.distribution_docker} of {system.name} cannot attach a GPU by CDI",
            where="docker.source",
            seen='"distribution"',
            wanted="Docker 26.1 or newer, which reads CDI 0.7",
            attempt='Docker(source="docker"), Docker\'s own repository',
        )


def _secure_boot(host: Host) -> Iterator[Refusal]:
    system = SYSTEMS.get(host.machine.os)
    source = host.driver.source if host.driver.source != "auto" else system.driver_source if system else ""
    if system and source == "canonical" and system.driver_source != "canonical":
        yield refuse(
            "canonical-driver-on-debian",
            f"Canonical's driver packages do not exist on {system.name}",
            where="driver.source",
            seen='"canonical"',
            wanted='"nvidia" or "auto"',
            attempt='Driver(source="auto")',
        )
    elif host.machine.secure_boot and source == "nvidia" and host.driver.manage:
        yield refuse(
            "secure-boot",
            "Secure Boot refuses the driver modules from NVIDIA's repository: they are built on the host and not "
            "signed",
            where="machine.secure_boot",
            seen=f"True, with the driver from NVIDIA's repository on {host.machine.os}",
            wanted="Canonical's signed modules, a driver that is managed elsewhere, or Secure Boot off",
            attempt='an Ubuntu machine with Driver(source="canonical"), or Driver(manage=False)',
        )


def _data_disk(disk: DataDisk) -> Iterator[Refusal]:
    if not DEVICE.fullmatch(disk.device) or NO_DISK.fullmatch(disk.device) or OF_CONTENT.match(disk.device):
        yield refuse(
            "data-disk-device",
            f"{disk.device!r} is not a disk that can store weights",
            where="machine.data_disk.device",
            seen=repr(disk.device),
            wanted="a path under /dev, preferably one that stays the same after a reboot",
            attempt='DataDisk(device="/dev/disk/by-id/…")',
        )
    if disk.mount != ROOT:  # a mount over /var or /var/lib would hide the files there
        yield refuse(
            "data-disk-mount",
            f"a disk mounted at {disk.mount!r} would not hold weights, releases and images",
            where="machine.data_disk.mount",
            seen=repr(disk.mount),
            wanted=f"a blank disk, which is then formatted and mounted at {ROOT}; not one that is mounted already",
            attempt=f"leave mount out; or leave data_disk out, and on the host: mount --bind DIRECTORY {ROOT}",
        )
