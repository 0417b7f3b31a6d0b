"""Base of all later roles: a synchronised clock, a few tools, our directories, a bounded journal, the data disk.

No kernel setting is changed, and limits of a service are set on its container. Of the tools, python3 runs the host
programs, curl requests health endpoints, rsync receives weights.
"""

from functools import partial
from typing import TypeAlias

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, step
from roles._shipping.apt import write_missing
from roles.base import operations
from roles.base.defaults import NEEDRESTART, NEEDRESTART_CONTENT, settings
from roles.base.facts import BaseHost

AnySlice: TypeAlias = Slice | BalancerSlice | MonitorSlice
BaseFact: TypeAlias = CachedFact[HostFacts]


def apply(mine: AnySlice) -> list[OperationMeta]:
    """Prepares the tools, the directories and the disk for the other roles. Returns the steps."""
    fact = _fact(mine)
    return [*begin(mine, fact), *finish(mine, fact)]


def begin(mine: AnySlice, fact: BaseFact | None = None) -> list[OperationMeta]:
    """Prepares Python, the disk and the directories for the fetch of weights. Returns the steps."""
    fact, disk, chosen = fact or _fact(mine), mine.data_disk(), settings(host)
    steps = [step(fact, operations.missing_programs, name="Base | Place helper programs")]
    if operations.is_sourced(mine):
        named = "Base | Let apt read the mirror of the distribution"
        steps.append(step(fact, lambda facts: operations.sources(facts, mine), after=steps[:1], name=named))
    before = list(steps)
    steps.append(
        step(fact, lambda facts: operations.tools(facts, mine, chosen), after=before, name="Base | Install Python")
    )
    if disk:
        adopted = partial(operations.disk, wanted=disk)
        steps.append(step(fact, adopted, after=steps[-1:], name="Base | Adopt the data disk"))
    kept = {NEEDRESTART: NEEDRESTART_CONTENT}
    return [
        *steps,
        step(fact, operations.directories, after=steps[-1:], name="Base | Make directories"),
        step(fact, lambda facts: write_missing(kept, facts), name="Base | Exclude our units from needrestart"),
    ]


def finish(mine: AnySlice, fact: BaseFact | None = None) -> list[OperationMeta]:
    """Installs the other tools, and sets up clock and journal; weights and image download meanwhile. Returns the
    steps."""
    fact, chosen = fact or _fact(mine), settings(host)
    packages = step(fact, lambda facts: operations.other_tools(facts, chosen), name="Base | Install tools")
    return [
        packages,
        step(fact, operations.clock, after=[packages], name="Base | Synchronise the clock"),
        step(fact, lambda facts: operations.journal(facts, chosen), name="Base | Limit the journal"),
    ]


def _fact(mine: AnySlice) -> BaseFact:
    disk = mine.data_disk()
    place = {"device": disk.device if disk else "", "mount": disk.mount if disk else ""}
    return CachedFact(BaseHost, {"programs": tuple(operations.programs()), **place})
