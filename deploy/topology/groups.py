"""Groups: hosts that serve one model together. They are staged, stopped and started together."""

from collections.abc import Iterable

from deploy.spec import LLM, Host, Rollout, Server
from deploy.topology.waves import Pool, Unit, pools_of


def grouped(server: Server) -> LLM | None:
    return next((model for model in server.models if isinstance(model, LLM) and model.parallel.hosts), None)


def group_of(host: Host) -> Unit:
    """The names of the host's group in the order of their ranks; empty for a host in no group."""
    models = (grouped(server) for server in host.servers)
    return next((model.parallel.hosts for model in models if model), ())


def units_of(hosts: Iterable[Host]) -> tuple[Unit, ...]:
    return tuple(dict.fromkeys(group for host in hosts if (group := group_of(host))))


def pools_of_hosts(hosts: Iterable[Host], rollout: Rollout) -> tuple[Pool, ...]:
    """The pools of all hosts that serve."""
    serving = [host for host in hosts if not host.farm]
    return pools_of(((host.name, host.pool) for host in serving), rollout, units_of(serving))
