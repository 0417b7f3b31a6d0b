"""Cuts GPUs into the planned MIG instances, now and after every boot; leaves them whole without planned instances.

The role comes after the driver, whose reload removes all instances, and before Docker and the toolkit, whose CDI
specification names the instances. Cutting interrupts programs on the GPU, so `foundation` calls this role only if the
host does not serve, or after the drain. Any other program that uses a GPU is named in a refusal, and not stopped. With
`Driver(manage=False)` the instances are only verified, and no unit is installed that makes them at boot.
"""

from collections.abc import Sequence

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles.mig import operations, verify
from roles.mig.defaults import settings
from roles.mig.facts import CutHost


def apply(mine: Slice, below: Sequence[OperationMeta] = ()) -> list[OperationMeta]:
    """Cuts every GPU as planned, or verifies it. `below`: steps of the driver. Returns the steps."""
    fact, chosen = CachedFact(CutHost), settings(host)
    if not mine.driver.manage:
        name = "MIG | Verify the cut under an unmanaged driver"
        return [check(fact, lambda facts: verify.not_managed(facts, mine), after=below, name=name)]
    if (
        not mine.mig
    ):  # without `after`: MIG is off on most hosts, and a driver that is not installed yet does not change that
        whole = step(fact, lambda facts: operations.make_whole(facts, mine), name="MIG | Remove the MIG instances")
        reboot = step(fact, lambda facts: operations.reboot(facts, mine, chosen), name="MIG | Reboot, confirmed")
        return [whole, reboot]
    files = step(fact, lambda facts: operations.files(facts, mine), name="MIG | Place unit and cut")
    cut = step(fact, lambda facts: operations.cut(facts, mine), after=below, name="MIG | Cut the GPUs")
    reboot = step(
        fact, lambda facts: operations.reboot(facts, mine, chosen), after=[cut], name="MIG | Reboot, confirmed"
    )
    judged = check(
        fact, lambda facts: verify.judge(facts, mine), after=[*below, cut, reboot], name="MIG | Verify the instances"
    )
    return [files, cut, reboot, judged]
