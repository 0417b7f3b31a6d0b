"""Gateways that also send to servers of other hosts: their connections, and the names in their certificates."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from deploy.models.llm_contract import model_name
from deploy.refusals import Refusal, refuse
from deploy.slices.gateway import GatewayOtherSlice, GatewaySlice, MutualGatewaySlice, MutualSlice
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.spec import Host
from deploy.topology.balancing import address_of
from deploy.topology.gateway import encoder_model, fingerprint, salted, task_aliases

LONGEST_NAME = 64
"""Characters of a common name in a certificate."""


def reached(host: Host, hosts: Iterable[Host]) -> list[Host]:
    """The other hosts whose servers the host's gateway uses."""
    named = set(host.gateway.others) if host.gateway else set[str]()
    return [
        remote for remote in hosts if remote.name != host.name and named & {remote.name, remote.pool or remote.name}
    ]


def common_name(host: str) -> str:
    return host if len(host) <= LONGEST_NAME else hashlib.sha256(host.encode()).hexdigest()[:32]


def with_remote_servers(slices: Sequence[Slice], hosts: Sequence[Host]) -> tuple[Slice, ...]:
    """The slices, with the gateways' servers on other hosts, and with a port for gateways on those hosts."""
    by_name = {slice_.host: slice_ for slice_ in slices}
    gateways = {host.name: reached(host, hosts) for host in hosts}
    addresses = {host.name: address_of(host) for host in hosts}
    result = []
    for host in hosts:
        mine, others = by_name[host.name], [by_name[remote.name] for remote in gateways[host.name]]
        clients = [client for client in hosts if host in gateways[client.name]]
        if others and mine.gateway:
            ports = {remote.name: remote.traffic.gateways_port for remote in hosts}
            mine = replace(mine, gateway=_with(mine, mine.gateway, others, addresses, ports))
        if others or clients:
            mutual = MutualSlice(
                address=addresses[host.name],
                port=host.traffic.gateways_port if clients else 0,
                gateways=tuple(
                    MutualGatewaySlice(name=common_name(client.name), address=addresses[client.name])
                    for client in clients
                ),
            )
            mine = replace(mine, mutual=mutual)
        result.append(mine)
    return tuple(result)


def contract_conflicts(slices: Iterable[Slice]) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each LLM that a gateway could not use the same way on its own host and on another."""
    by_name = {slice_.host: slice_ for slice_ in slices}
    for mine in by_name.values():
        own = {model.name: (server, model) for server in mine.servers for model in server.models}
        for remote in mine.gateway.others if mine.gateway else ():
            host = by_name[remote.name.rpartition("/")[0]]
            (server,) = [server for server in host.servers if server.name == remote.server]
            for model in server.models:
                if model.kind == "llm" and _request_shape(server, model) != _request_shape(*own[model.name]):
                    yield mine.host, _contract_conflict(model, own[model.name], (server, model), remote.name)


def _request_shape(server: ServerSlice, model: ModelSlice) -> tuple[str, bool]:
    return model_name(model.name, model.path), salted(model, server.image.trtllm)


def _contract_conflict(
    model: ModelSlice, own: tuple[ServerSlice, ModelSlice], remote: tuple[ServerSlice, ModelSlice], name: str
) -> Refusal:
    paths = [f"{llm.path} with TensorRT-LLM {server.image.trtllm}" for server, llm in (own, remote)]
    return refuse(
        "one-name-two-models",
        f"the gateway cannot ask {model.name} here and on {name} alike",
        where="gateway.others",
        seen=f"{paths[0]} here, {paths[1]} there",
        wanted="the same path and release on both, so that both take the same request",
        attempt=f"the same release and path= for {model.name} on both hosts; or take the host out of others",
    )


def _with(
    mine: Slice, gateway: GatewaySlice, others: Sequence[Slice], addresses: dict[str, str], ports: dict[str, int]
) -> GatewaySlice:
    servers = [(remote, server) for remote in others for server in remote.servers]
    models = {model.name: model for model in gateway.models}
    for remote, server in servers:
        for model in server.models:
            name = f"{remote.host}/{server.name}"
            known = models.get(model.name) or encoder_model(model, ())
            models[model.name] = replace(known, servers=(*known.servers, name))
    ordered = tuple(models[name] for name in sorted(models))
    kept = tuple(alias for alias in gateway.aliases if alias not in task_aliases(gateway.models))
    return replace(
        gateway,
        models=ordered,
        aliases=(*task_aliases(ordered), *kept),
        fingerprint=fingerprint([*mine.servers, *(server for _, server in servers)]),
        others=tuple(
            GatewayOtherSlice(
                name=f"{remote.host}/{server.name}",
                server=server.name,
                address=addresses[remote.host],
                port=ports[remote.host],
            )
            for remote, server in servers
        ),
    )
