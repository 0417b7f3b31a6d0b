"""The servers of one host: names, GPUs, ports, addresses. Their models are judged in `deploy.validation.models`."""

import re
from collections.abc import Iterator

from deploy.inventory.reach import ip_of
from deploy.refusals import Refusal, model_at, refuse, secret_in, server_at
from deploy.spec import Host, Server
from deploy.validation.ports import SERVER_PORTS, free_port, port_twice

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
"""A server's name, which becomes a systemd instance, a container's name and a directory."""


def server_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the servers of one host, each by itself and all together."""
    if not host.servers and not host.farm:
        yield refuse(
            "no-servers",
            "the host has no servers",
            where="servers",
            seen="()",
            wanted="one Server or more",
            attempt='servers=(Server(name="main", models=(…,)),)',
        )
    for server in host.servers:
        # Instances of cut GPUs are counted in deploy.validation.mig.
        yield from _alone(server, 0 if host.machine.mig else host.machine.gpus)
    yield from _same_names(host)
    yield from _same_ports(host)
    yield from _same_gpus(host)


def _alone(server: Server, gpus: int) -> Iterator[Refusal]:
    if not NAME.fullmatch(server.name):
        yield _bad_name(server)
    if not server.models:
        yield refuse(
            "empty-server",
            f"server {server.name} has no models",
            where=server_at(server.name, "models"),
            seen="()",
            wanted="one model or more",
            attempt="add a model, or remove the server",
        )
    yield from _gpu_indexes(server, gpus)
    yield from _address(server)


def _bad_name(server: Server) -> Refusal:
    slug = re.sub("[^a-z0-9]+", "-", server.name.lower()).strip("-")[:32]
    return refuse(
        "bad-name",
        f"{server.name!r} cannot name a systemd unit and a container",
        where=server_at(server.name, "name"),
        seen=repr(server.name),
        wanted="lower-case letters, digits and inner hyphens, 32 at most",
        attempt=f'Server(name="{"main" if secret_in(server.name) else slug or "main"}")',
    )


def _gpu_indexes(server: Server, gpus: int) -> Iterator[Refusal]:
    place = server_at(server.name, "gpus")
    missing = [index for index in server.gpus if not 0 <= index < gpus]
    if missing and gpus > 0:
        last = "GPU 0 only" if gpus == 1 else f"0 to {gpus - 1}"
        yield refuse(
            "gpu-index",
            f"server {server.name} wants GPU {missing[0]} of a machine with {gpus}",
            where=place,
            seen=str(server.gpus),
            wanted=last,
            attempt=f"Machine(gpus={max(missing) + 1}) if it has them, or gpus=(0,)"
            if max(missing) >= gpus
            else "gpus=" + ("(0,)" if gpus == 1 else f"tuple(range({gpus})) for all of them"),
        )
    if not server.gpus:
        yield refuse(
            "server-without-gpu",
            f"server {server.name} names no GPU",
            where=place,
            seen="()",
            wanted='the indexes of its GPUs; an encoder without a GPU has device="cpu"',
            attempt="gpus=(0,)",
        )
    if len(set(server.gpus)) < len(server.gpus):
        yield refuse(
            "gpus-used-twice",
            f"server {server.name} names a GPU twice",
            where=place,
            seen=str(server.gpus),
            wanted="each index once",
            attempt=f"gpus={tuple(sorted(set(server.gpus)))}",
        )


def _address(server: Server) -> Iterator[Refusal]:
    place = server_at(server.name, "address")
    if (address := ip_of(server.address)) is None:
        yield refuse(
            "bad-address",
            f"server {server.name}: {server.address!r} is not an IP address",
            where=place,
            seen=repr(server.address),
            wanted="an address of the host; 127.0.0.1 is reachable from the host only",
            attempt=f'address="{_address_meant(server.address)}"',
        )
        return
    if address.is_multicast or server.address == "255.255.255.255":
        yield refuse(
            "bad-address",
            f"server {server.name}: {server.address} is a multicast address, and a host cannot listen on one",
            where=place,
            seen=repr(server.address),
            wanted="an address of the host; 127.0.0.1 is reachable from the host only",
            attempt='address="127.0.0.1"',
        )
    if not address.is_loopback and not server.protection:
        yield refuse(
            "public-address",
            f"server {server.name} would answer anyone who reaches {server.address}: Triton has no authentication",
            where=place,
            seen=f"{server.address!r}, protection={server.protection!r}",
            wanted='loopback; protection="firewall" with a Firewall on this host; '
            'or protection="balancer" behind a Balancer',
            attempt='address="127.0.0.1"; or protection="firewall" and "firewall": Firewall(allow=("10.0.0.0/8",))',
        )


def _address_meant(text: str) -> str:
    """The address in a text with a port or a prefix length; loopback without an address."""
    bare = re.sub(r"^\w+://|/.*$|(?<=[0-9\]]):[0-9]{1,5}$", "", text.strip()).strip("[]")
    return str(ip_of(bare) or "127.0.0.1")


def _same_names(host: Host) -> Iterator[Refusal]:
    names = [server.name for server in host.servers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield refuse(
            "duplicate-server",
            f"{names.count(name)} servers are called {name}",
            where=server_at(name, "name"),
            seen=f"{name!r}, {names.count(name)} times",
            wanted="a different name for each: it names the unit triton@NAME.service",
            attempt=f'Server(name="{name}-2")',
        )


def _same_ports(host: Host) -> Iterator[Refusal]:
    owners: dict[int, list[str]] = {}
    for field in ("ready_port", "agent_port") if host.servers else ():
        owners.setdefault(getattr(host.traffic, field), []).append(f"traffic.{field}")
    for server in host.servers:
        for field in SERVER_PORTS:
            owners.setdefault(getattr(server, field), []).append(server_at(server.name, field))
        for model in server.standalone_llms:
            owners.setdefault(model.port, []).append(model_at(server.name, model.name, "port"))
    offered = set(owners)
    for port, places in owners.items():
        if len(places) > 1:
            free = free_port(offered, port + 1)
            offered.add(free)
            yield port_twice(port, places[0], places[1], f"{places[1].rsplit('.', 1)[1]}={free}")


def _same_gpus(host: Host) -> Iterator[Refusal]:
    owner: dict[int, str] = {}
    for server in host.servers:
        for index in sorted(set(server.gpus)):
            if owner.setdefault(index, server.name) != server.name:
                yield refuse(
                    "gpus-used-twice",
                    f"GPU {index} is in two servers",
                    where=server_at(server.name, "gpus"),
                    seen=f"{server.gpus}, and GPU {index} is in server {owner[index]} already",
                    wanted="each GPU in one server, whose models share its memory",
                    attempt=f"move the models into server {owner[index]}, or name another GPU",
                )
