"""Hosts with a gateway, as in a plan."""

from __future__ import annotations

import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import make_plan
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import Slice
from deploy.spec import Gateway
from tests.unit.samples import AROUND, Source

ROOT = Path(__file__).resolve().parents[3]
INVENTORIES = sorted(file.stem for file in (ROOT / "inventories").glob("*.py") if file.stem != "rehearsal")


def hosts_of(inventory: str) -> list[Source]:
    """The hosts of an inventory in pyinfra's form: names, or names with their own data, and the data of their group."""
    groups = runpy.run_path(str(ROOT / "inventories" / f"{inventory}.py"))
    hosts = []
    for name, value in groups.items():
        if not name.startswith("_") and isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], list):
            pairs = [row if isinstance(row, tuple) else (row, {}) for row in value[0]]
            hosts += [Source(host, value[1] | own, (name,)) for host, own in pairs]
    return hosts


@cache
def with_gateway(inventory: str, gateway: Gateway = Gateway()) -> tuple[Slice, ...]:  # noqa: B008  # frozen
    """The hosts of a shipped inventory, each with this gateway if it is behind no balancer."""
    fleet = Fleet.of(hosts_of(inventory))
    hosts = tuple(
        host if host.gateway and host.gateway.protection else replace(host, gateway=gateway) for host in fleet.hosts
    )
    return make_plan(replace(fleet, hosts=hosts), AROUND).slices


def h100(gateway: Gateway = Gateway()) -> tuple[Slice, GatewaySlice]:  # noqa: B008  # frozen
    """The one host of inventories/h100.py, and its gateway."""
    (mine,) = with_gateway("h100", gateway)
    assert mine.gateway
    return mine, mine.gateway
