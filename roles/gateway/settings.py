"""A host's door as the file that files/gateway/settings.py reads. Pure: the same slice gives the same bytes."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict
from typing import Any

from deploy.slices.door import DoorAliasSlice, DoorModelSlice, DoorOtherSlice, DoorSlice
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.traffic import TrafficSlice
from deploy.topology.balancing import LOOPBACK
from roles.gateway.paths import AUTHORITY, CERTIFICATE, KEYS, SALT

MIB = 2**20


def rendered(mine: Slice, door: DoorSlice) -> str:
    """The whole file, for the door and the servers of one host."""
    return json.dumps(settings(mine, door), indent=2) + "\n"


def settings(mine: Slice, door: DoorSlice) -> dict[str, Any]:
    """What the file says, as plain values."""
    limits = door.limits
    return {
        "fingerprint": door.fingerprint,
        **({"url": door.url} if door.url else {}),
        **({"keys_file": KEYS} if door.keys else {}),
        **({"salt_file": SALT} if any(model.salts for model in door.models) else {}),
        **({"hosts": door.hosts} if door.hosts > 1 else {}),
        "listen": listen(door),
        "hold_seconds": door.hold_seconds,
        "limits": {
            "body_bytes": limits.body_mib * MIB,
            "tenant_bodies_bytes": limits.tenant_bodies_mib * MIB,
            "bodies_bytes": limits.bodies_mib * MIB,
            "request_seconds": limits.request_seconds,
            "held": limits.held,
            "inputs": limits.inputs,
            "documents": limits.documents,
        },
        **({"trace_one_in": door.trace_one_in} if door.trace_one_in else {}),
        "servers": {
            full_name(mine, server.name): {
                "grpc": grpc(server),
                **({} if door.is_behind_balancer else _ready(mine.traffic, server)),
            }
            for server in mine.servers
        }
        | {other.name: _other(other) for other in door.others},
        **({"mutual": {"certificate": CERTIFICATE, "authority": AUTHORITY}} if door.others else {}),
        "models": {model.name: _model(mine, model) for model in door.models},
        "aliases": {alias.name: _alias(alias) for alias in door.aliases},
    }


def listen(door: DoorSlice) -> dict[str, Any]:
    """Where the processes listen: what a process reads when it starts, and not again."""
    return {
        "address": door.address,
        "ports": list(door.ports),
        "connections": door.limits.connections,
        "drain_seconds": door.drain_seconds,
    }


def full_name(mine: Slice, server: str) -> str:
    """What the audit calls a server."""
    return f"{mine.host}/{server}"


def grpc(server: ServerSlice) -> str:
    """Where the host itself reaches a server of its own."""
    address = ipaddress.ip_address(server.address)
    if address.is_unspecified:
        address = ipaddress.ip_address(LOOPBACK if address.version == 4 else "::1")
    return f"{_in_url(str(address))}:{server.grpc_port}"


def _ready(traffic: TrafficSlice | None, server: ServerSlice) -> dict[str, str]:
    """The page of the host's traffic service that says of this server whether it may be asked."""
    if traffic is None:
        return {}
    return {"ready_url": f"http://{_in_url(traffic.address)}:{traffic.ready_port}/ready/{server.name}"}


def _other(other: DoorOtherSlice) -> dict[str, str]:
    """A server of another host, and the page there that says whether it may be asked: both behind one port."""
    where = f"{_in_url(other.address)}:{other.port}"
    return {"grpc": where, "ready_url": f"https://{where}/ready/{other.server}", "mutual": other.server}


def _model(mine: Slice, model: DoorModelSlice) -> dict[str, Any]:
    own = {server.name for server in mine.servers}
    named = {"servers": [full_name(mine, server) if server in own else server for server in model.servers]}
    return _said(**{key: value for key, value in asdict(model).items() if key != "name"} | named)


def _alias(alias: DoorAliasSlice) -> dict[str, Any]:
    stands_for = {"models": alias.models} if len(alias.models) > 1 else {"model": alias.models[0]}
    return _said(**stands_for, task=alias.task, adapter=alias.adapter)


def _said(**values: Any) -> dict[str, Any]:
    """The values that say something: what does not belong to a model is left out."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value}


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
