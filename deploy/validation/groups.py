"""Groups of hosts that serve one model together: equal settings on every host, and a declared private network.

All mistakes of a group are reported together, each with the values of its hosts side by side.
"""

from collections.abc import Callable, Iterator, Sequence

from deploy.catalog.names import nearest
from deploy.catalog.runtimes import SERVE, TRITON, VLLM
from deploy.inventory.fleet import Fleet
from deploy.models.resolve import layout_of
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host, Server
from deploy.topology.balancing import address_of, is_reachable
from deploy.topology.groups import grouped

FABRIC = 'Machine(…, fabric=Fabric(kind="infiniband", gbit=400, interface="ib0"))'
OF_MEMBERS: tuple[tuple[str, str, Callable[[Host, Server], object]], ...] = (
    ("GPUs", "machine.gpu", lambda host, server: f"{len(server.gpus)} {host.machine.gpu}"),
    ("images", "release", lambda host, server: f"{host.release} {host.image_digest or 'by its tag'}"),
    ("drivers", "driver", lambda host, server: f"{host.driver.branch} {host.driver.version}".strip()),
    ("networks", "machine.fabric", lambda host, server: host.machine.fabric),
    ("pools", "pool", lambda host, server: host.pool or "none"),
    ("models", "servers", lambda host, server: server.models),
    ("times", "servers", lambda host, server: (server.start_seconds, server.stop_seconds)),
)
"""(subject, place, value) of each setting that has to be equal on the hosts of a group."""


def group_problems(fleet: Fleet) -> list[tuple[str, Refusal]]:
    """(host, refusal) for each mistake in the groups of a fleet."""
    by_name = {host.name: host for host in fleet.hosts}
    problems: list[tuple[str, Refusal]] = []
    for host in fleet.hosts:
        for server in host.servers:
            if model := grouped(server):
                problems += [(host.name, problem) for problem in _of_host(host, server, model, by_name)]
                if host.name == next((name for name in model.parallel.hosts if name in by_name), ""):
                    problems += [(host.name, problem) for problem in _of_group(server, model, by_name)]
    return problems


def _of_host(host: Host, server: Server, model: LLM, by_name: dict[str, Host]) -> Iterator[Refusal]:
    yield from _names(host, server, model, by_name)
    yield from _program(server, model)
    yield from _network(host, model)


def _names(host: Host, server: Server, model: LLM, by_name: dict[str, Host]) -> Iterator[Refusal]:
    names = model.parallel.hosts
    place = model_at(server.name, model.name, "parallel", "hosts")
    missing = [name for name in names if not _serves(by_name.get(name), server)]
    meant = _members_meant(names, host, server, by_name)
    if len(names) < 2 or len(set(names)) < len(names):
        yield refuse(
            "group-names",
            f"{model.name}: a group has two or more hosts, each named once",
            where=place,
            seen=str(names),
            wanted="the names of different hosts of this inventory",
            attempt="hosts="
            + (_written(meant) if len(set(meant)) > 1 else f'("{host.name}", …)')
            + ", or leave hosts out and one host serves the model alone",
        )
    if missing:
        yield refuse(
            "group-member-missing",
            f"{model.name}: {', '.join(missing)} has no server {server.name} of this inventory",
            where=place,
            seen=", ".join(names),
            wanted=f"hosts of this inventory, each with Server(name={server.name!r}, …)",
            attempt=f"hosts={_written(meant)}"
            if len(meant) == len(names)
            else "declare the hosts of a group in one list: they then have the same data",
        )
    if host.name not in names and host.name not in meant:
        yield refuse(
            "group-without-this-host",
            f"{model.name}: {host.name} declares it and is not in its group",
            where=place,
            seen=", ".join(names),
            wanted=f"{host.name} among the names, or another model on this host",
            attempt=f"hosts={_written((*dict.fromkeys(names), host.name))}, or a server of its own for {host.name}",
        )


def _members_meant(names: Sequence[str], host: Host, server: Server, by_name: dict[str, Host]) -> tuple[str, ...]:
    """The hosts that a group's names mean: names, addresses of hosts, and misspelled names.

    Empty if a name is unknown; a repeated name also stands for this host, if this host is not named elsewhere.
    """
    serving = {name: member for name, member in by_name.items() if _serves(member, server)}
    by_address = {address_of(member): name for name, member in serving.items()}
    rest = [name for name in serving if name not in names]
    meant = [name if name in serving else by_address.get(name, "") or nearest(name, rest) or "" for name in names]
    if len(set(meant)) < len(meant) and host.name in serving and host.name not in meant:
        meant = [*dict.fromkeys(meant), host.name]
    return tuple(meant) if all(name in serving for name in meant) else ()


def _written(names: Sequence[str]) -> str:
    return "(" + ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "") + ")"


def _serves(host: Host | None, server: Server) -> bool:
    return bool(host and any(candidate.name == server.name for candidate in host.servers))


def _program(server: Server, model: LLM) -> Iterator[Refusal]:
    if model.runtime == TRITON:
        yield refuse(
            "group-of-triton",
            f"{model.name}: Triton serves a model on one host only",
            where=model_at(server.name, model.name, "runtime"),
            seen=f'runtime="{TRITON}", {len(model.parallel.hosts)} hosts',
            wanted="a program beside Triton that has ranks on several hosts",
            attempt=f'runtime="{VLLM}", or leave hosts out',
        )


def _network(host: Host, model: LLM) -> Iterator[Refusal]:
    address, firewall = address_of(host), host.firewall
    if host.machine.fabric is None:
        yield refuse(
            "group-without-fabric",
            f"{model.name}: the network between the hosts of its group is not declared",
            where="machine.fabric",
            seen="None",
            wanted="its kind, speed and interface: it limits every layer or every stage",
            attempt=FABRIC,
        )
    if not is_reachable(address):
        yield refuse(
            "group-without-address",
            f"{model.name}: the other hosts of its group cannot reach {host.name}",
            where="peer_address",
            seen=f"peer_address={host.peer_address!r}",
            wanted="this host's own address on the network between them",
            attempt=f'("{host.name}", {{"peer_address": "10.0.0.11"}})',
        )
    elif model.runtime == SERVE and ":" in address:
        yield refuse(
            "group-wants-ipv4",
            f"{model.name}: Open MPI reaches the hosts of a group over IPv4, and the peer_address of {host.name} "
            "is IPv6",
            where="peer_address",
            seen=f"{host.name}: {address}",
            wanted="this host's address of IPv4 on the network between them",
            attempt=f'("{host.name}", {{"peer_address": "10.0.0.11"}}), or runtime="{VLLM}"',
        )
    if firewall is None or firewall.rest != "closed":
        yield refuse(
            "group-without-firewall",
            f"{model.name}: its ranks accept work from anyone who reaches them, at ports that are not known in advance",
            where="firewall",
            seen="None" if firewall is None else f"rest={firewall.rest!r}",
            wanted="everything else of the host closed; the other hosts of its group are let in",
            attempt='"firewall": Firewall(rest="closed")',
        )


def _of_group(server: Server, model: LLM, by_name: dict[str, Host]) -> Iterator[Refusal]:
    members = [
        (by_name[name], next(own for own in by_name[name].servers if own.name == server.name))
        for name in dict.fromkeys(model.parallel.hosts)
        if _serves(by_name.get(name), server)
    ]
    for subject, place, value in OF_MEMBERS:
        if len({str(value(*member)) for member in members}) > 1:
            yield _unequal(model, subject, place, [(host.name, value(host, own)) for host, own in members])
    addresses = [address_of(host) for host, _own in members if is_reachable(address_of(host))]
    if len(set(addresses)) < len(addresses):
        yield _unequal_addresses(model, [(host.name, address_of(host)) for host, _own in members])


def _unequal(model: LLM, subject: str, place: str, values: Sequence[tuple[str, object]]) -> Refusal:
    shown = "declared differently" if place == "servers" else ""
    return refuse(
        "group-unequal",
        f"{model.name}: the hosts of its group have different {subject}",
        where=place,
        seen=", ".join(f"{name}: {shown or value}" for name, value in values),
        wanted="the same on every host: each rank computes its part of the same layers at the same time",
        attempt=f"declare `{place.partition('.')[0]}` once, in the data that all hosts of the group have",
    )


def _unequal_addresses(model: LLM, values: Sequence[tuple[str, str]]) -> Refusal:
    return refuse(
        "peer-address-twice",
        f"{model.name}: two hosts of its group have the same address",
        where="peer_address",
        seen=", ".join(f"{name}: {address}" for name, address in values),
        wanted="a different address for each machine",
        attempt=f'("{values[0][0]}", {{"peer_address": "ITS OWN ADDRESS"}}), beside its name and not in a group',
    )


def group_notices(host: Host) -> Iterator[str]:
    for server in host.servers:
        if model := grouped(server):
            yield from _price_of_ethernet(host, server, model)
            if model.runtime == VLLM:
                yield (
                    f"{model.name}: vLLM's image has no nccl-tests, so nothing measures the network between its hosts "
                    "before they start; TensorRT-LLM's image does"
                )


def _price_of_ethernet(host: Host, server: Server, model: LLM) -> Iterator[str]:
    """A sentence if every layer waits for plain Ethernet; the plan of the group has the milliseconds."""
    fabric = host.machine.fabric
    if not fabric or fabric.kind != "ethernet" or layout_of(server, model).tensor <= len(server.gpus):
        return
    yield (
        f"{model.name} splits every layer over hosts that plain Ethernet of {fabric.gbit} Gbit/s joins: each layer "
        "waits for it twice, for every token too; "
        f"tensor={len(server.gpus)}, pipeline={len(model.parallel.hosts)} sends one state between hosts instead"
    )
