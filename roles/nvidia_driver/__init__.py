"""NVIDIA's driver: installed from one origin, its three versions made equal, held at its version, and persistent.

The packages are installed in the same run that must load them, so the next action is decided at execution, from facts:
load, reload, or one confirmed reboot. A healthy driver of the cloud image is kept if it has the wanted branch or a
newer one; with `manage=False` the driver is only verified.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping.apt import write_missing
from roles.nvidia_driver import activate, operations, verify
from roles.nvidia_driver.defaults import settings
from roles.nvidia_driver.facts import DriverHost


def apply(mine: Slice) -> list[OperationMeta]:
    """Loads the declared driver, proves that it sees every GPU, and holds its version. Returns the steps."""
    chosen = settings(host)
    wanted = operations.WantedDriver.of(mine, chosen)
    fact = CachedFact(DriverHost, {"repository": wanted.repository})
    if not mine.driver.manage:
        return [check(fact, lambda facts: verify.judge(facts, mine), name="Driver | Verify the unmanaged driver")]

    check(fact, lambda facts: verify.obstacles(facts, mine), name="Driver | Check for obstacles")
    quiet = step(fact, operations.without_nouveau, name="Driver | Block nouveau")
    known = step(fact, lambda facts: operations.repository(facts, wanted), name="Driver | Add the repository")
    pinned = step(fact, lambda facts: operations.pinning(facts, wanted), after=[known], name="Driver | Pin the branch")
    packages = step(
        fact, lambda facts: operations.packages(facts, wanted), after=[pinned], name="Driver | Install packages"
    )
    files = operations.guards()
    guard = step(fact, lambda facts: write_missing(files, facts), name="Driver | Keep unattended upgrades away")
    keep = step(fact, operations.persistence, name="Driver | Set persistence mode")
    load = step(fact, activate.load, after=[packages], name="Driver | Load the modules")
    reboot = step(fact, lambda facts: activate.reboot(facts, chosen), after=[load], name="Driver | Reboot, confirmed")
    ready = [packages, keep, load, reboot]
    if mine.driver.fabric_manager:
        ready.append(
            step(
                fact, lambda facts: operations.fabric(facts, mine), after=ready, name="Driver | Run the fabric manager"
            )
        )
    serve = step(fact, operations.persistenced, after=ready, name="Driver | Run the persistence daemon")
    held = step(fact, operations.hold, after=ready, name="Driver | Hold driver and kernel")
    judged = check(
        fact, lambda facts: verify.judge(facts, mine), after=[*ready, serve], name="Driver | Verify the driver"
    )
    return [quiet, known, pinned, guard, *ready, serve, held, judged]
