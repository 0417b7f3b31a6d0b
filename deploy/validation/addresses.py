"""Addresses of a fleet: no two hosts, balancers or monitors share one."""

from collections.abc import Iterable, Iterator

from deploy.inventory.fleet import Fleet
from deploy.refusals import Refusal, refuse
from deploy.spec import Host
from deploy.topology.balancing import address_of, is_reachable

SUPPORT_EXAMPLES = {"balancer": "10.0.0.5", "monitor": "10.0.0.9"}


def address_problems(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each address that a support host shares with another host of the fleet."""
    support = [(host.name, "balancer", host.balancer.address) for host in fleet.balancers]
    support += [(host.name, "monitor", host.monitor.address) for host in fleet.monitors]
    owners: dict[str, tuple[str, str]] = {}
    for name, kind, address in support:
        if not is_reachable(address):
            continue
        if address in owners:
            yield name, _taken(f"{kind}.address", name, f"the {kind} {name}", address, owners[address])
        owners.setdefault(address, (name, kind))
    for host in fleet.hosts:
        if (address := address_of(host)) in owners:
            yield host.name, _taken("peer_address", host.name, host.name, address, owners[address])


def _taken(where: str, host: str, title: str, address: str, owner: tuple[str, str]) -> Refusal:
    name, kind = owner
    field = where.partition(".")[0]
    typed = (
        f'("{host}", {{"peer_address": "ITS OWN ADDRESS"}})'
        if field == "peer_address"
        else (f'{field.capitalize()}(address="ITS OWN ADDRESS", …)')
    )
    return refuse(
        "address-of-another-host",
        f"{title} and the {kind} {name} have the same address: requests between them would go to themselves",
        where=where,
        seen=f"{address}, also the address of the {kind} {name}",
        wanted="a different address for each machine",
        attempt=f"hostname -I on {host} shows its addresses; then {typed}",
    )


def support_address(kind: str, address: str) -> Iterator[Refusal]:
    """The refusal of a balancer or monitor at an address from which it cannot connect to hosts."""
    if not is_reachable(address):
        yield refuse(
            "bad-address",
            f"{address!r} is not an address from which a {kind} can connect to hosts",
            where=f"{kind}.address",
            seen=repr(address),
            wanted=f"the {kind}'s own IP address in the network of the hosts",
            attempt=f'{kind.capitalize()}(address="{SUPPORT_EXAMPLES[kind]}", …)',
        )


def no_address(host: Host, problem: str, network: str = "the fleet") -> Refusal:
    """The refusal of a host that other hosts of `network` have to reach, and whose address is not declared."""
    return refuse(
        "no-peer-address",
        problem,
        where="peer_address",
        seen=f"peer_address={host.peer_address!r}, servers at "
        f"{', '.join(dict.fromkeys(server.address for server in host.servers)) or 'no address'}",
        wanted=f"an IP address of the host in the network of {network}",
        attempt=f'hostname -I on {host.name} shows its addresses; then ("{host.name}", {{"peer_address": '
        '"ITS OWN ADDRESS"})',
    )


def equal_addresses(hosts: Iterable[Host], problem: str) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each host with the address of an earlier one."""
    first: dict[str, Host] = {}
    for host in hosts:
        address = address_of(host)
        if not is_reachable(address) or first.setdefault(address, host) is host:
            continue
        pair = first[address], host
        borrowed = next((member for member in pair if member.traffic.address == address), None)
        refusal = refuse(
            "peer-address-twice",
            f"{pair[0].name} and {host.name} {problem}",
            where="traffic.address" if borrowed else "peer_address",
            seen=f"{address}, for both",
            wanted="a different address for each machine",
            attempt=f"leave address out of the Traffic of {borrowed.name}: its peer_address stands for it"
            if borrowed and borrowed.peer_address
            else f'hostname -I on {host.name} shows its own; ("{host.name}", {{"peer_address": '
            '"THAT ADDRESS"}), beside its name and not in a group',
        )
        yield host.name, refusal
