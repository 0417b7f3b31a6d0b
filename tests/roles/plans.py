"""A plan in the form for deploy.py, around a test's own slices."""

from __future__ import annotations

from typing import Any

from deploy.planning.plan import Plan
from deploy.slices.host import Slice
from deploy.spec import Rollout
from deploy.topology.waves import pools_of, waves


def a_plan(*slices: Slice, rollout: Rollout | None = None, **changes: Any) -> Plan:
    """The plan of these slices, by their hosts' names; canary and waves as in `rollout`."""
    chosen = rollout or Rollout()
    pools = pools_of(((host_slice.host, host_slice.pool) for host_slice in slices), chosen)
    made = {"slices": slices, "waves": waves(pools, chosen), "pools": pools, "rollout": chosen, "digest": "plan-1"}
    return Plan(**{**made, **changes})
