"""The door of an inventory with one serving host that says nothing of a door."""

from __future__ import annotations

from dataclasses import replace

from deploy.inventory.fleet import Fleet
from deploy.spec import Door
from deploy.validation.door import door_problems


def with_default_door(fleet: Fleet) -> Fleet:
    """The fleet whose only host has a door if its inventory says nothing of one; else the reason among its remarks.

    A door that nobody asked for refuses nobody's inventory. Several hosts are a fleet: its inventory names the hosts
    that clients come to.
    """
    if not fleet.gets_door:
        return fleet
    host = fleet.hosts[0]
    if host.door or host.farm or not any(server.models for server in host.servers):
        return fleet
    with_door = replace(host, door=Door())
    problem = next(door_problems(with_door), None)
    if problem is None:
        return replace(fleet, hosts=(with_door,))
    return replace(fleet, remarks=(f"no front door: {problem.problem}; with `door=None` nothing is said of it",))
