"""A fleet whose models have numbers and files instead of hub names. Pure: the lock is in `Surroundings`."""

from dataclasses import replace

from deploy.inventory.fleet import Fleet
from deploy.models.names import is_named, resolved
from deploy.spec import Host
from deploy.spec.surroundings import Surroundings


def with_names(fleet: Fleet, surroundings: Surroundings) -> Fleet:
    """The fleet with every name resolved that the lock or a directory knows; an unknown name is unchanged."""
    if not any(is_named(model) for host in fleet.hosts for _, model in host.served_models):
        return fleet
    return replace(fleet, hosts=tuple(_with_names(host, surroundings) for host in fleet.hosts))


def _with_names(host: Host, surroundings: Surroundings) -> Host:
    servers = tuple(
        replace(server, models=tuple(resolved(model, surroundings) for model in server.models))
        for server in host.servers
    )
    return replace(host, servers=servers)
