"""ENGINEHOUSE_HERE=HOST: the host of this name is this machine, and is reached without SSH.

A host that starts by itself deploys itself. `pyinfra @local deploy.py` cannot do that: a host called `@local` has
neither the inventory's data nor the name that its plan, its digest and its balancers know. Here the host keeps its name
and its data; its connector alone is pyinfra's local one. All other hosts stay hosts behind SSH.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pyinfra.api import Inventory
from pyinfra.connectors.local import LocalConnector

HERE = "ENGINEHOUSE_HERE"
"""Environment variable: the inventory's name for this machine."""


def install(environment: Mapping[str, str]) -> None:
    """Every inventory of this process reaches the host that ENGINEHOUSE_HERE names locally, if it is set."""
    name = environment.get(HERE, "")
    if name and not hasattr(Inventory.make_hosts_and_groups, "__wrapped__"):
        Inventory.make_hosts_and_groups = reaching_locally(Inventory.make_hosts_and_groups, name)


def reaching_locally(make: Callable[..., None], name: str) -> Callable[..., None]:
    """`make` of an inventory, with the local connector for the host of this name."""

    @functools.wraps(make)
    def making(inventory: Any, names: Any, groups: Any) -> None:
        make(inventory, names, groups)
        if name in inventory.hosts:
            inventory.hosts[name].connector_cls = LocalConnector

    return making
