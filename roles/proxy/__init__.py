"""The host's outgoing HTTP proxy: configured for apt, dockerd and the fetching units before the first of them needs it.

dockerd reads it at its start. The docker role restarts a running dockerd, because the file is newer.
"""

from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.steps import CachedFact, step
from roles.proxy import operations
from roles.proxy.facts import ProxyHost


def apply(mine: Slice | BalancerSlice | MonitorSlice) -> list[OperationMeta]:
    """Configures the declared proxy for programs of the host. Returns the step; none without a proxy."""
    proxy = mine.proxy
    if proxy is None:
        return []
    fact = CachedFact(ProxyHost)
    return [step(fact, lambda facts: operations.missing(facts, proxy), name="Proxy | Configure programs for the proxy")]
