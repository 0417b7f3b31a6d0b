"""The connection of a host without a network to its bundle."""

from typing import TypeVar

from pyinfra import host, state

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._shipping import bundle
from roles.bundle_needs import wanted_packages

T = TypeVar("T", Slice, BalancerSlice, MonitorSlice, Slice | BalancerSlice | MonitorSlice)


def connected_to_bundle(mine: T) -> T:
    """The slice, unchanged; a host without a network is connected to its bundle until the end of the run."""
    if mine.bundle:
        bundle.opened_for(state.inventory.get_host(host.name), mine, wanted_packages(mine, host.data.dict()))
    return mine
