"""Obstacles to the driver, and the final check; judged from facts that are read anyway."""

from collections.abc import Iterator

from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse
from roles.nvidia_driver import packages as names
from roles.nvidia_driver.operations import is_kept
from roles.nvidia_driver.versions import HostDriver, State

NOTHING_DONE = "the driver role has changed nothing"
INSTALLED = "packages of the driver role are in place; nothing serves on this host because of it"


def obstacles(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Refusals for obstacles that this role does not remove: a runfile, another origin, unsigned under Secure Boot."""
    if facts.value("runfile"):
        yield Refuse(_runfile(facts))
    if is_kept(facts, mine):
        return
    foreign = names.origins(facts.packages) - {mine.driver.source}
    if foreign:
        yield Refuse(_foreign(sorted(foreign)[0], facts, mine))
    if facts.value("secure-boot") and mine.driver.source == "nvidia" and not facts.value("enrolled"):
        yield Refuse(_unsigned(mine))


def judge(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """A refusal unless the three versions agree, are new enough, and the driver sees every declared GPU."""
    driver, gpus = HostDriver.of(facts), len(facts.value("gpus").splitlines())
    if driver.state is not State.HEALTHY:
        yield Refuse(_unhealthy(driver, facts, mine))
    elif not driver.reaches(mine.driver.floor):
        yield Refuse(_too_old(driver, mine))
    elif gpus != mine.machine.gpus:
        yield Refuse(_missing_gpus(gpus, mine))


def _runfile(facts: HostFacts) -> Refusal:
    return Refusal(
        "the driver was installed by NVIDIA's runfile, which no package manager can hold or upgrade",
        facts={"found": facts.value("runfile").splitlines()[0], **HostDriver.of(facts).to_rows()},
        attempt="nvidia-uninstall, reboot and run again; or driver = Driver(manage=False) to use it as it is",
        state=NOTHING_DONE,
        kind="runfile-driver",
    )


def _foreign(origin: str, facts: HostFacts, mine: Slice) -> Refusal:
    installed = names.of_driver(facts.packages)
    return Refusal(
        f"the installed driver comes from {origin}, the wanted one from {mine.driver.source}",
        facts={
            "found": ", ".join(installed[:6]),
            "wanted": f"{mine.driver.branch} from {mine.driver.source}",
            "means": "the two publishers split the driver into different packages, which must not be mixed",
        },
        attempt="apt-get purge '^nvidia-.*' '^libnvidia-.*' '^linux-modules-nvidia-.*', reboot and run again",
        state=NOTHING_DONE,
        kind="foreign-driver",
    )


def _unsigned(mine: Slice) -> Refusal:
    canonical = 'driver = Driver(source="canonical") takes modules signed by Canonical; or '
    return Refusal(
        "Secure Boot is on, and a module built on this host would be rejected by the kernel",
        facts={
            "found": "Secure Boot on, no enrolled key for dkms",
            "wanted": "modules signed by a key the firmware knows",
        },
        attempt=(canonical if mine.machine.os.startswith("ubuntu") else "")
        + "mokutil --import /var/lib/dkms/mok.pub and confirm on the console; or turn Secure Boot off",
        state=NOTHING_DONE,
        kind="secure-boot",
    )


def _unhealthy(driver: HostDriver, facts: HostFacts, mine: Slice) -> Refusal:
    return Refusal(
        f"the NVIDIA driver is not usable: {driver.state.value}",
        facts=driver.to_rows() | {"kernel": facts.value("kernel")},
        attempt=_remedy(driver, mine),
        state=INSTALLED if mine.driver.manage else NOTHING_DONE,
        kind="driver-state",
    )


def _remedy(driver: HostDriver, mine: Slice) -> str:
    if not mine.driver.manage:
        return "repair it on the host, or let the role do it: driver = Driver(manage=True)"
    if driver.state is State.NOT_BUILT:
        return "dkms status and /var/lib/dkms/nvidia/*/build/make.log on the host say why it was not built"
    return "journalctl -k -b | grep -iE 'nvrm|nvidia|nouveau' on the host says why"


def _too_old(driver: HostDriver, mine: Slice) -> Refusal:
    return Refusal(
        f"driver {driver.loaded} is too old for {mine.image.reference}",
        facts={"found": driver.loaded, "wanted": f"{mine.driver.floor} or newer"},
        attempt="driver = Driver(manage=True), or an older release",
        state=NOTHING_DONE if not mine.driver.manage else INSTALLED,
        kind="driver-floor",
    )


def _missing_gpus(count: int, mine: Slice) -> Refusal:
    return Refusal(
        f"the driver sees {count} of {mine.machine.gpus} GPUs",
        facts={"found": f"{count} (nvidia-smi -L)", "wanted": str(mine.machine.gpus)},
        attempt="dmesg | grep -i 'xid\\|fallen off' on the host; a GPU off the bus needs the VM stopped and started",
        state=INSTALLED if mine.driver.manage else NOTHING_DONE,
        kind="driver-gpus",
    )
