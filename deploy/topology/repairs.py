"""Hosts that may repair themselves, and the number of their pool that may be out at a time, as in a rollout."""

from collections.abc import Iterable
from dataclasses import replace

from deploy.inventory.fleet import Fleet
from deploy.slices.host import RepairSlice, Slice
from deploy.topology.groups import pools_of_hosts


def with_repairs(slices: Iterable[Slice], fleet: Fleet) -> tuple[Slice, ...]:
    """The slices; hosts that may repair themselves have the limit of their pool."""
    pools = {pool.name: pool for pool in pools_of_hosts(fleet.hosts, fleet.rollout)}
    return tuple(
        slice_
        if slice_.machine.repair == "none"
        else replace(
            slice_, repair=RepairSlice(allowed=slice_.machine.repair, max_unavailable=pools[slice_.pool].allowed)
        )
        for slice_ in slices
    )
