"""The gateway of an inventory with one serving host that declares no gateway."""

from dataclasses import replace

from deploy.inventory.fleet import Fleet
from deploy.spec import Gateway
from deploy.validation.gateway import gateway_problems


def with_default_gateway(fleet: Fleet) -> Fleet:
    """The fleet. Its only host gets a gateway if the inventory declares none; a remark explains a host without one.

    A gateway that was not requested never causes a refusal. An inventory of several hosts has to name the hosts for
    clients.
    """
    if not fleet.gets_gateway:
        return fleet
    host = fleet.hosts[0]
    if host.gateway or host.farm or not any(server.models for server in host.servers):
        return fleet
    with_gateway = replace(host, gateway=Gateway())
    problem = next(gateway_problems(with_gateway), None)
    if problem is None:
        return replace(fleet, hosts=(with_gateway,))
    seen = f"no gateway: {problem.problem} ({problem.facts['seen']})"
    return replace(fleet, remarks=(f"{seen}; for one: {problem.attempt}; `gateway=None` silences this note",))
