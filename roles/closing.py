"""What follows the last wave, once each has passed its gate: balancers, front doors, and what nobody asks for any more.

Nothing here stops a server, so nobody is drained for it.
"""

from __future__ import annotations

from deploy.plan import Plan
from deploy.slice import Slice
from deploy.slice_traffic import BalancerSlice
from roles import cleanup, edge, gateway


def apply(mine: Slice | None, balancer: BalancerSlice | None, plan: Plan) -> None:
    """Balancers check every model of the plan, and doors offer it. With `--data only=door`, doors alone act."""
    if mine:
        gateway.apply(mine)
    if balancer and not plan.door_only:
        edge.settle(balancer)
    if mine and not plan.door_only:
        cleanup.apply(mine)
