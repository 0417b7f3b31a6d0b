"""Base of all later roles: a synchronised clock, a few tools, our directories, a bounded journal, the data disk.

No kernel setting is changed, and limits of a service are set on its container. Of the tools, python3 runs the host
programs, curl requests health endpoints, rsync receives weights.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.steps import CachedFact, step
from roles._shipping.apt import write_missing
from roles.base import operations
from roles.base.defaults import NEEDRESTART, NEEDRESTART_CONTENT, settings
from roles.base.facts import BaseHost


def apply(mine: Slice | BalancerSlice | MonitorSlice) -> list[OperationMeta]:
    """Prepares the tools, the directories and the disk for the other roles. Returns the steps."""
    chosen, disk = settings(host), mine.data_disk()
    fact = CachedFact(BaseHost, {"programs": tuple(operations.programs()), "device": disk.device if disk else "",
                              "mount": disk.mount if disk else ""})  # fmt: skip
    placed = step(fact, operations.missing_programs, name="Base | Place helper programs")
    sourced = [placed]
    if operations.is_sourced(mine):
        named = "Base | Let apt read the mirror of the distribution"
        sourced.append(step(fact, lambda facts: operations.sources(facts, mine), after=[placed], name=named))
    packages = step(
        fact, lambda facts: operations.tools(facts, mine, chosen), after=sourced, name="Base | Install tools"
    )
    clock = step(fact, operations.clock, after=[packages], name="Base | Synchronise the clock")
    journal = step(fact, lambda facts: operations.journal(facts, chosen), name="Base | Limit the journal")
    kept = {NEEDRESTART: NEEDRESTART_CONTENT}
    guard = step(fact, lambda facts: write_missing(kept, facts), name="Base | Exclude our units from needrestart")
    steps = [*sourced, packages, clock, journal, guard]
    if disk:
        steps.append(
            step(fact, lambda facts: operations.disk(facts, disk), after=[packages], name="Base | Adopt the data disk")
        )
    return [*steps, step(fact, operations.directories, after=steps[len(sourced) + 3 :], name="Base | Make directories")]
