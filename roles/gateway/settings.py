"""A host's gateway as the file that files/gateway/settings.py reads. Pure: the same slice gives the same bytes."""

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from deploy.inventory.reach import own_address
from deploy.inventory.ssh_config import in_brackets
from deploy.slices.gateway import GatewayAliasSlice, GatewayModelSlice, GatewayOtherSlice, GatewaySlice
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.traffic import TrafficSlice
from deploy.spec import Gateway, Price
from deploy.topology.balancing import LOOPBACK
from roles._shipping import places
from roles.gateway.defaults import AUTHORITY, CERTIFICATE, KEYS, SALT

MIB = 2**20


def is_beside(mine: Slice) -> bool:
    """True if a server of the host has an LLM in a program beside Triton."""
    return any(server.standalone_llm for server in mine.servers)


def rendered(mine: Slice, gateway: GatewaySlice) -> str:
    return json.dumps(settings(mine, gateway), indent=2) + "\n"


def settings(mine: Slice, gateway: GatewaySlice) -> dict[str, Any]:
    """Content of the settings file, as plain values."""
    limits = gateway.limits
    return {
        "fingerprint": gateway.fingerprint,
        **({"url": gateway.url} if gateway.url else {}),
        **({"keys_file": KEYS} if gateway.keys else {}),
        **({"salt_file": SALT} if gateway.has_salt(is_beside(mine)) else {}),
        **({"hosts": gateway.hosts} if gateway.hosts > 1 else {}),
        "listen": listen(gateway),
        "hold_seconds": gateway.hold_seconds,
        "limits": {
            "body_bytes": limits.body_mib * MIB,
            "tenant_bodies_bytes": limits.tenant_bodies_mib * MIB,
            "bodies_bytes": limits.bodies_mib * MIB,
            "request_seconds": limits.request_seconds,
            "held": limits.held,
            "inputs": limits.inputs,
            "documents": limits.documents,
        },
        # Fields with their defaults are left out: an older gateway, after a reverted run, refuses fields unknown to it.
        **({"usage_days": gateway.usage_days} if gateway.usage_days != Gateway().usage_days else {}),
        **({"prices": prices} if (prices := _prices(gateway)) else {}),
        **({"identity": asdict(gateway.identity)} if gateway.identity else {}),
        **({"trace_one_in": gateway.trace_one_in} if gateway.trace_one_in else {}),
        **({"unknown_fields": "refuse"} if gateway.unknown_fields == "refuse" else {}),
        **({} if gateway.pages else {"pages": False}),
        **_non_empty(
            cors_origins=gateway.cors_origins,
            default_embedder=gateway.default_embedder,
            default_reranker=gateway.default_reranker,
        ),
        "servers": {
            name: entry | ({} if gateway.is_behind_balancer else _ready(mine.traffic, server))
            for server in mine.servers
            for name, entry in _entries(mine, server)
        }
        | {server.name: _remote_server(server) for server in gateway.others},
        **({"mutual": {"certificate": CERTIFICATE, "authority": AUTHORITY}} if gateway.others else {}),
        "models": {model.name: _model(mine, model) for model in gateway.models},
        "aliases": {alias.name: _alias(alias) for alias in gateway.aliases},
    }


def listen(gateway: GatewaySlice) -> dict[str, Any]:
    return {
        "address": gateway.address,
        "ports": list(gateway.ports),
        "connections": gateway.limits.connections,
        "drain_seconds": gateway.drain_seconds,
    }


def full_name(mine: Slice, server: str) -> str:
    return f"{mine.host}/{server}"


def llm_name(mine: Slice, server: str) -> str:
    return f"{full_name(mine, server)}/llm"


def _entries(mine: Slice, server: ServerSlice) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, address) of a server's Triton over gRPC, and of its LLM beside Triton over HTTP."""
    yield full_name(mine, server.name), {"grpc": grpc(server)}
    if server.standalone_llm:
        _, runtime = server.standalone_llm
        address = {"http": f"{LOOPBACK}:{runtime.port}", "runtime": runtime.name, "version": runtime.version}
        # A swap or its rollback ends before this run writes the settings, so the gateway reads the release itself.
        address |= {"release": f"{places.server(server.name)}/current/server.json"}
        yield llm_name(mine, server.name), address


def grpc(server: ServerSlice) -> str:
    """The address at which the host itself reaches its own server."""
    address = own_address(str(ipaddress.ip_address(server.address)))
    return f"{in_brackets(address)}:{server.grpc_port}"


def _ready(traffic: TrafficSlice | None, server: ServerSlice) -> dict[str, str]:
    """The page of the host's traffic service that shows whether this server takes requests."""
    if traffic is None:
        return {}
    return {"ready_url": f"http://{in_brackets(traffic.address)}:{traffic.ready_port}/ready/{server.name}"}


def _remote_server(server: GatewayOtherSlice) -> dict[str, str]:
    """A server of another host, and its readiness page there: both behind one port."""
    where = f"{in_brackets(server.address)}:{server.port}"
    return {"grpc": where, "ready_url": f"https://{where}/ready/{server.server}", "mutual": server.server}


def _prices(gateway: GatewaySlice) -> dict[str, Any]:
    """Prices of the models that the gateway offers; other prices may be for models of other hosts."""
    names = {model.name for model in gateway.models}
    return {name: _price(price) for name, price in gateway.prices if name in names}


def _price(price: Price) -> dict[str, Any]:
    cached = price.prompt if price.cached is None else price.cached
    return {"prompt": price.prompt, "cached": cached, "completion": price.completion, "currency": price.currency}


def _model(mine: Slice, model: GatewayModelSlice) -> dict[str, Any]:
    own = {server.name: full_name(mine, server.name) for server in mine.servers}
    for server in mine.servers:
        if server.standalone_llm and server.standalone_llm[0].name == model.name:
            own[server.name] = llm_name(mine, server.name)
    named = {"servers": [own.get(server, server) for server in model.servers]}
    return _non_empty(**{key: value for key, value in asdict(model).items() if key != "name"} | named)


def _alias(alias: GatewayAliasSlice) -> dict[str, Any]:
    stands_for: dict[str, Any] = {"models": alias.models} if len(alias.models) > 1 else {"model": alias.models[0]}
    if alias.weights:
        stands_for = {"shares": dict(zip(alias.models, alias.weights, strict=True)), "sticky": alias.sticky}
    return _non_empty(**stands_for, task=alias.task, adapter=alias.adapter, fallback=alias.fallback)


def _non_empty(**values: Any) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value}
