"""Commands for the difference between the driver's facts and the wanted state. Pure; `step` runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from deploy.catalog import SYSTEMS
from deploy.catalog.versions import at_least
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, write
from roles._shipping import apt
from roles._shipping.places import PROGRAMS
from roles.nvidia_driver import defaults
from roles.nvidia_driver import packages as names
from roles.nvidia_driver.defaults import Defaults
from roles.nvidia_driver.versions import HostDriver

FILES = Path(__file__).parents[2] / "files"
NO_NOUVEAU = "blacklist nouveau\noptions nouveau modeset=0\n"


@dataclass(frozen=True, kw_only=True)
class WantedDriver:
    """The slice with the repository of its origin; None for Canonical's packages, whose repository the OS already
    has."""

    mine: Slice
    repository: apt.Repository | None

    @classmethod
    def of(cls, mine: Slice, chosen: Defaults) -> WantedDriver:
        return cls(mine=mine, repository=_repository(mine, chosen) if mine.driver.source == "nvidia" else None)


def _repository(mine: Slice, chosen: Defaults) -> apt.Repository:
    system = SYSTEMS[mine.machine.os]
    folder = f"{system.nvidia_path}/x86_64/"
    return apt.Repository(
        name="enginehouse-nvidia",
        url=chosen.repository,
        path=f"{folder} /",
        key_url=f"{chosen.repository}/{folder}{chosen.key_file_name or system.nvidia_key}",
        key_fingerprint=chosen.key_fingerprint or system.nvidia_fingerprint,
    ).mirrored(mine.mirrors.nvidia)


def is_kept(facts: HostFacts, mine: Slice) -> bool:
    """True if the installed driver can stay: complete, at least the floor, and of the declared branch or a newer one.

    A newer branch is kept because the inventory asks for no downgrade; an exact `version` does ask for a downgrade.
    """
    driver = HostDriver.of(facts)
    whole = driver.on_disk != "" and driver.on_disk == driver.user_space
    if not whole or not at_least(driver.on_disk, mine.driver.floor):
        return False
    if mine.driver.version:
        return driver.on_disk == mine.driver.version
    return at_least(driver.on_disk, mine.driver.branch)


def without_nouveau(facts: HostFacts) -> Iterator[Command]:
    """Commands that disable nouveau from the next boot on; only if nouveau runs, because cloud kernels often lack
    it."""
    if facts.value("nouveau") and not facts.holds(defaults.NOUVEAU, NO_NOUVEAU):
        yield write(defaults.NOUVEAU, NO_NOUVEAU)
        # nouveau is loaded from the initramfs, which carries its own copy of the blacklist.
        yield "if command -v update-initramfs >/dev/null; then update-initramfs -u; fi"


def repository(facts: HostFacts, wanted: WantedDriver) -> Iterator[Command]:
    if wanted.repository and not is_kept(facts, wanted.mine):
        yield from wanted.repository.missing(facts)


def pinning(facts: HostFacts, wanted: WantedDriver) -> Iterator[Command]:
    """Commands that pin the branch, before the packages that the pin applies to."""
    if is_kept(facts, wanted.mine) or not wanted.repository:
        return
    for package in names.pinning(wanted.mine):
        if package not in facts.packages:
            yield f"{PROGRAMS}/patient-apt update {quote(wanted.repository.name)}"
            yield _is_published(package, wanted)
            yield from apt.install({package: ""}, facts.packages)


def _is_published(package: str, wanted: WantedDriver) -> str:
    """A command that fails with a message if the repository does not have the branch; published tables of branches lag
    behind."""
    branch = wanted.mine.driver.version or wanted.mine.driver.branch
    place = wanted.repository.url if wanted.repository else ""
    message = f"driver {branch} is not in {place}; apt-cache search nvidia-driver-pinning lists what is"
    return f"apt-cache show {quote(package)} >/dev/null 2>&1 || {{ echo {quote(message)} >&2; exit 1; }}"


def packages(facts: HostFacts, wanted: WantedDriver) -> Iterator[Command]:
    """Commands that install the compute-only packages with open modules, unless the installed driver is kept."""
    if is_kept(facts, wanted.mine):
        return
    names_wanted = names.wanted(wanted.mine, facts.value("kernel"))
    repository = wanted.repository.name if wanted.repository else ""
    commands = list(apt.install(names_wanted, facts.packages, repository=repository))
    if commands and wanted.mine.machine.os.startswith("debian"):
        commands[1:1] = _with_contrib(wanted.mine, names_wanted)
    if commands:
        yield from apt.release(names.of_driver(facts.packages), facts.packages)
    yield from commands


def _with_contrib(mine: Slice, packages: Mapping[str, str]) -> list[Command]:
    """The command that adds Debian's `contrib` if apt cannot resolve the packages without it."""
    program, codename = (FILES / "shell" / "enable-contrib").read_text(), SYSTEMS[mine.machine.os].codename
    retry = f"{defaults.CONTRIB} {codename} && {PROGRAMS}/patient-apt update"
    simulated = f"apt-get install --simulate --allow-change-held-packages {apt.specified(packages)} >/dev/null 2>&1"
    return [write(defaults.CONTRIB, program, mode="0755"), f"{simulated} || {{ {retry}; }}"]


def guards() -> dict[str, str]:
    return {defaults.UPGRADES: defaults.UPGRADES_CONTENT}


def hold(facts: HostFacts) -> Iterator[Command]:
    """The command that holds the driver's packages and the kernel's metapackages."""
    held = [*names.of_driver(facts.packages), *names.of_kernel(facts.packages)]
    yield from apt.hold(held, facts.packages)


def persistence(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the drop-in for persistence and the program that reloads modules."""
    program = (FILES / "shell" / "reload-modules").read_text()
    if not facts.holds(defaults.RELOAD, program):
        yield write(defaults.RELOAD, program, mode="0755")
    drop_in = (FILES / "units" / "persistenced.conf").read_text()
    if not facts.holds(defaults.PERSISTENCE, drop_in):
        # The daemon cannot start without a loaded driver; `persistenced` starts it later.
        restart = "systemctl daemon-reload && (systemctl try-restart nvidia-persistenced.service 2>/dev/null || true)"
        yield write(defaults.PERSISTENCE, drop_in, then=restart)


def persistenced(facts: HostFacts) -> Iterator[Command]:
    """Commands after which the persistence daemon runs now and after every boot, if the packages include it."""
    unit = facts.unit("nvidia-persistenced.service")
    if unit.exists and not unit.starts_at_boot:
        yield "systemctl enable nvidia-persistenced.service"
    if unit.exists and unit.active != "active":
        yield "systemctl restart nvidia-persistenced.service"


def fabric(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Commands after which the fabric manager of exactly this driver runs; none without visible NVSwitches."""
    driver = HostDriver.of(facts)
    if not (facts.value("switches") and driver.loaded):
        return
    yield from apt.install(names.fabric_manager(mine, driver.loaded), facts.packages)
    unit = facts.unit("nvidia-fabricmanager.service")
    if not (unit.runs and unit.starts_at_boot):
        yield "systemctl enable --now nvidia-fabricmanager.service"
