"""The way out through an HTTP proxy: apt, dockerd and the units that fetch know it before the first of them needs it.

dockerd reads it as it starts. One that runs already is restarted by the docker role, which sees that the file is newer.
"""

from __future__ import annotations

from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.steps import CachedFact, step
from roles.proxy import operations
from roles.proxy.facts import ProxyHost


def apply(mine: Slice | BalancerSlice | MonitorSlice) -> list[OperationMeta]:
    """Programs of the host know the declared proxy. Returns the step; none without a proxy."""
    proxy = mine.proxy
    if proxy is None:
        return []
    fact = CachedFact(ProxyHost)
    return [step(fact, lambda facts: operations.missing(facts, proxy), name="Proxy | Let programs know the way out")]
