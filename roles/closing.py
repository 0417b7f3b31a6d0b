"""Steps after the last wave, once each has passed its gate: balancers, gateways, monitors, exporters and cleanup.

No step stops a server, so no host is drained.
"""

from deploy.planning.plan import Plan
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles import cleanup, exporters, gateway, https, mutual
from roles import support as edges
from roles._pyinfra import quiet


def apply(mine: Slice | None, edge: BalancerSlice | MonitorSlice | None, plan: Plan) -> None:
    """Balancers check each planned model, gateways offer it, monitors read it; `only=gateway`: gateways and keys."""
    if mine and not plan.gateway_only:
        mutual.apply(mine)
    if mine:
        gateway.apply(mine)
    if mine and not plan.gateway_only:
        https.apply(mine)
    if edge and plan.gateway_only:
        edges.send_keys(edge)
    elif edge:
        edges.settle(edge)
    if mine and not plan.gateway_only:
        exporters.apply(mine.exporters)
        cleanup.apply(mine)
    quiet.recheck()
    quiet.settle()
