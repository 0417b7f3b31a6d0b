"""Ports of one host: its programs' ports, and the refusals that every listener shares."""

from collections.abc import Collection
from itertools import chain

from deploy.refusals import Refusal, model_at, refuse, server_at
from deploy.spec import Host

SERVER_PORTS = ("http_port", "grpc_port", "metrics_port")


def taken_ports(host: Host) -> dict[int, str]:
    """Ports of our programs on the host except the gateway: servers, programs beside Triton, the agent of balancers."""
    traffic = {getattr(host.traffic, field): f"traffic.{field}" for field in ("ready_port", "agent_port")}
    servers = {
        getattr(server, field): server_at(server.name, field) for server in host.servers for field in SERVER_PORTS
    }
    beside = {
        model.port: model_at(server.name, model.name, "port")
        for server in host.servers
        for model in server.standalone_llms
    }
    return traffic | servers | beside


def taken_with_gateway(host: Host) -> dict[int, str]:
    return taken_ports(host) | dict.fromkeys(host.gateway.ports if host.gateway else (), "gateway.ports")


def free_port(taken: Collection[int], first: int) -> int:
    """The next port from `first` on, or from 8000 on if no port is left or `first` is no port."""
    candidates = chain(range(max(first, 1024), 65536), range(8000, 65536))
    return next(candidate for candidate in candidates if candidate not in taken)


def port_twice(port: int, owner: str, where: str, attempt: str) -> Refusal:
    return refuse(
        "port-twice",
        f"port {port} is used twice on one host",
        where=where,
        seen=f"{port}, also {owner}",
        wanted="a port of its own for each listener",
        attempt=attempt,
    )
