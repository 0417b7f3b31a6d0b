"""ENGINEHOUSE_HERE=HOST: the host of this name is this machine and is reached without SSH.

A host at its first boot deploys itself. `pyinfra @local deploy.py` cannot do that: a host called `@local` has neither
the inventory's data nor the name in its plan, its digest and its balancers. Here the host keeps its name and its data,
and only its connector is pyinfra's local one. All other hosts are reached over SSH.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pyinfra.api import Inventory
from pyinfra.connectors.local import LocalConnector

HERE = "ENGINEHOUSE_HERE"
"""Environment variable: the inventory's name for this machine."""


def install(environment: Mapping[str, str]) -> None:
    """Makes every inventory of this process reach the host in ENGINEHOUSE_HERE locally, if the variable is set."""
    name = environment.get(HERE, "")
    if name and not hasattr(Inventory.make_hosts_and_groups, "__wrapped__"):
        Inventory.make_hosts_and_groups = reaching_locally(Inventory.make_hosts_and_groups, name)


def reaching_locally(make: Callable[..., None], name: str) -> Callable[..., None]:
    """An inventory's `make`, with the local connector for the host of this name."""

    @functools.wraps(make)
    def making(inventory: Any, names: Any, groups: Any) -> None:
        make(inventory, names, groups)
        if name in inventory.hosts:
            inventory.hosts[name].connector_cls = LocalConnector

    return making
