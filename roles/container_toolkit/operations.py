"""Commands for the difference between the toolkit's facts and the wanted state. Pure; `step` runs them."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, write
from roles._shipping import apt
from roles.container_toolkit import defaults
from roles.container_toolkit.defaults import Defaults

FILES = Path(__file__).parents[2] / "files" / "shell"


def repository(mine: Slice, chosen: Defaults) -> apt.Repository:
    return apt.Repository(
        name="enginehouse-container-toolkit",
        url=chosen.repository,
        path="$(ARCH) /",
        key_url=chosen.key_url,
        key_fingerprint=chosen.key_fingerprint,
    ).mirrored(mine.mirrors.toolkit)


def know(facts: HostFacts, repository: apt.Repository) -> Iterator[Command]:
    """Commands that add the repository and disable lists from earlier instructions."""
    conflicts = facts.value(f"conflicts-{repository.name}").splitlines()
    for path in facts.value("old-lists").splitlines():
        if path not in conflicts:
            yield f"mv {quote(path)} {quote(path)}.disabled"
    yield from repository.missing(facts)


def packages(facts: HostFacts, mine: Slice, repository: apt.Repository) -> Iterator[Command]:
    """Commands that bring all four packages to one version; since 1.18 mixed versions do not work."""
    wanted = dict.fromkeys(defaults.PACKAGES, mine.toolkit_version)
    yield from apt.install(wanted, facts.packages, repository=repository.name)


def hold(facts: HostFacts) -> Iterator[Command]:
    yield from apt.hold(defaults.PACKAGES, facts.packages)


def guards() -> dict[str, str]:
    """Files that keep unattended upgrades off the toolkit: path, content."""
    return {defaults.UPGRADES: defaults.UPGRADES_CONTENT}


def program(facts: HostFacts) -> Iterator[Command]:
    """The command that places the probe."""
    content = (FILES / "prove-gpu-container").read_text()
    if not facts.holds(defaults.PROVE, content):
        yield write(defaults.PROVE, content, mode="0755")


def instances(mine: Slice) -> tuple[str, ...]:
    """CDI names of all MIG instances; empty if the GPUs are whole."""
    gpus, cut = range(mine.machine.gpus), range(len(mine.mig))
    return tuple(f"nvidia.com/gpu={gpu}:{number}" for gpu in gpus for number in cut)


def is_current(facts: HostFacts, mine: Slice) -> bool:
    """True if the CDI specification has all GPUs and these MIG instances, and was made for the loaded driver."""
    if sorted(facts.value("instances").split()) != sorted(instances(mine)):
        return False
    return bool(facts.value("cdi")) and facts.value("described") == f"libcuda.so.{facts.value('driver')}"


def refresh(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Commands after which the specification describes the loaded driver, now and after every change of the driver."""
    units = [name for name in defaults.UNITS if facts.unit(name).exists]
    idle = [name for name in units if not facts.unit(name).starts_at_boot]
    if idle:
        yield f"systemctl enable {' '.join(idle)}"
    if "nvidia-cdi-refresh.path" in units and not facts.unit("nvidia-cdi-refresh.path").runs:
        yield "systemctl start nvidia-cdi-refresh.path"
    if not is_current(facts, mine):
        yield "systemctl restart nvidia-cdi-refresh.service"


def versions(facts: HostFacts, mine: Slice) -> str:
    """The versions for which CUDA is proven; a changed version needs a new proof."""
    rows = {
        "kernel": facts.value("kernel"),
        "driver": facts.value("driver"),
        "engine": facts.value("engine"),
        "toolkit": facts.packages[defaults.PACKAGES[0]].version if defaults.PACKAGES[0] in facts.packages else "",
        "daemon.json": facts.value("daemon"),
    }
    if mine.mig:
        rows["mig"] = " + ".join(mine.mig)
    return "".join(f"{name} {value}\n" for name, value in rows.items())


def prove(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    if facts.value("proven").rstrip() != versions(facts, mine).rstrip():
        yield " ".join([defaults.PROVE, str(mine.machine.gpus), *instances(mine)])
        yield write(defaults.PROVEN, versions(facts, mine))
