"""Cuts GPUs into the planned MIG instances, now and after every boot; or leaves them whole, if the plan names none.

Comes after the driver, which a reload would leave uncut, and before Docker and the toolkit, whose CDI specification
names the instances. Cutting interrupts whoever uses the GPU, so `foundation` calls this where nothing serves, or after
the drain. Whatever else has a GPU open that must be cut is named, and left alone. With `Driver(manage=False)` the
GPUs belong to somebody else: how they are cut is only verified, and no unit is installed that cuts them at boot.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles.mig import operations, verify
from roles.mig.defaults import settings
from roles.mig.facts import CutHost


def apply(mine: Slice, below: Sequence[OperationMeta] = ()) -> list[OperationMeta]:
    """Every GPU is cut as planned, or verified to be. `below`: steps of the driver. Returns the steps."""
    fact, chosen = CachedFact(CutHost), settings(host)
    if not mine.driver.manage:
        name = "MIG | Verify, as the driver is not managed"
        return [check(fact, lambda facts: verify.not_managed(facts, mine), after=below, name=name)]
    if (
        not mine.mig
    ):  # without `after`: it is off nearly everywhere, and a driver yet to be installed says nothing of it
        whole = step(fact, lambda facts: operations.make_whole(facts, mine), name="MIG | Make the GPUs whole")
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
