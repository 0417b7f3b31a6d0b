"""Gateways that also send to servers of other hosts: their connections, and the names in their certificates."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from deploy.models.files import tokenizer_of, weights_path
from deploy.models.llm_contract import model_name
from deploy.refusals import Refusal, refuse
from deploy.slices.gateway import GatewayOtherSlice, GatewaySlice, MutualGatewaySlice, MutualSlice
from deploy.slices.host import ModelSlice, ServerSlice, Slice, WeightsSlice
from deploy.spec import Host
from deploy.topology.balancing import address_of
from deploy.topology.gateway import adapter_aliases, fingerprint, gateway_model, salted, task_aliases

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
            mine = _with(mine, mine.gateway, others, {remote.name: remote for remote in hosts})
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
        known = {model.name: ("here", server, model) for server in mine.servers for model in server.models}
        for remote in mine.gateway.others if mine.gateway else ():
            host = by_name[remote.name.rpartition("/")[0]]
            (server,) = [server for server in host.servers if server.name == remote.server]
            for model in server.models:
                place, first_server, first = known.setdefault(model.name, (f"on {remote.name}", server, model))
                if model.kind == "llm" and _request_shape(server, model) != _request_shape(first_server, first):
                    both = ((place, first_server, first), (f"on {remote.name}", server, model))
                    yield mine.host, _contract_conflict(model.name, *both)


def _request_shape(server: ServerSlice, model: ModelSlice) -> tuple[str, bool]:
    return model_name(model.name, model.path), salted(model, server.image.trtllm)


def _contract_conflict(name: str, *places: tuple[str, ServerSlice, ModelSlice]) -> Refusal:
    paths = [f"{model.path} with TensorRT-LLM {server.image.trtllm} {place}" for place, server, model in places]
    return refuse(
        "one-name-two-models",
        f"the gateway cannot ask {name} {' and '.join(place for place, _, _ in places)} alike",
        where="gateway.others",
        seen=", ".join(paths),
        wanted="the same path and release on both, so that both take the same request",
        attempt=f"the same release and path= for {name} on both hosts; or take the host out of others",
    )


def _with(mine: Slice, gateway: GatewaySlice, others: Sequence[Slice], hosts: Mapping[str, Host]) -> Slice:
    """The host's slice; its gateway has the models of other hosts, and its weights the tokenizers of their LLMs."""
    servers = [(remote, server) for remote in others for server in remote.servers]
    models = {model.name: model for model in gateway.models}
    aliases = [alias for alias in gateway.aliases if alias not in task_aliases(gateway.models)]
    tokenizers = dict[WeightsSlice, None]()
    for remote, server in servers:
        llms = {llm.name: llm for llm in hosts[remote.host].llms}
        for model in server.models:
            if model.name not in models:
                known = gateway_model(model, server.image.trtllm, (), llms.get(model.name))
                if known.files:
                    files = tokenizer_of(model.weights)
                    tokenizers[files] = None
                    known = replace(known, files=weights_path(files))
                    aliases += [alias for alias in adapter_aliases(hosts[remote.host]) if alias.models == (model.name,)]
                models[model.name] = known
            known = models[model.name]
            models[model.name] = replace(known, servers=(*known.servers, f"{remote.host}/{server.name}"))
    ordered = tuple(models[name] for name in sorted(models))
    extended = replace(
        gateway,
        models=ordered,
        aliases=(*task_aliases(ordered), *aliases),
        fingerprint=fingerprint([*mine.servers, *(server for _, server in servers)]),
        others=tuple(
            GatewayOtherSlice(
                name=f"{remote.host}/{server.name}",
                server=server.name,
                address=address_of(hosts[remote.host]),
                port=hosts[remote.host].traffic.gateways_port,
            )
            for remote, server in servers
        ),
    )
    return replace(
        mine,
        gateway=extended,
        weights=(*mine.weights, *tokenizers),
        disk_needed_mib=mine.disk_needed_mib + sum(files.size_mib for files in tokenizers),
    )
