"""Steps after the last wave, once each has passed its gate: balancers, gateways, monitors, exporters and cleanup.

No step stops a server, so no host is drained.
"""

from deploy.planning.plan import Plan
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles import cleanup, exporters, gateway, https, mutual, support
from roles._pyinfra import quiet


def apply(mine: Slice | None, support_slice: BalancerSlice | MonitorSlice | None, plan: Plan) -> None:
    """Makes balancers check, gateways offer and monitors read every planned model; with `only=gateway`, only gateways
    and keys."""
    if mine and not plan.gateway_only:
        mutual.apply(mine)
    if mine:
        gateway.apply(mine)
    if mine and not plan.gateway_only:
        https.apply(mine)
    if support_slice and plan.gateway_only:
        support.send_keys(support_slice)
    elif support_slice:
        support.apply_after_waves(support_slice)
    if mine and not plan.gateway_only:
        exporters.apply(mine.exporters)
        cleanup.apply(mine)
    quiet.recheck()
    quiet.leave_out_unchanged()
