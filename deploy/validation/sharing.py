"""Hosts that share files: addresses at which they reach each other, and ports without conflicts."""

from collections.abc import Iterator

from deploy.inventory.fleet import Fleet
from deploy.models.resolve import image_of, release_row
from deploy.refusals import Refusal, refuse
from deploy.spec import Host, Sharing
from deploy.topology.balancing import address_of, is_reachable
from deploy.topology.monitors import OURS
from deploy.topology.mutual import reached
from deploy.topology.sharing import all_weights
from deploy.validation.addresses import equal_addresses, no_address
from deploy.validation.ports import taken_with_gateway


def sharing_problems(fleet: Fleet) -> list[tuple[str, Refusal]]:
    """(host, refusal) for each mistake in the sharing between hosts."""
    sharing = [host for host in fleet.hosts if host.sharing]
    targets = {target.name for host in fleet.hosts for target in reached(host, fleet.hosts)}
    sets = len({named for host in sharing for named in all_weights(host)}) + len(_images(sharing))
    refusals = [
        (host.name, problem)
        for host in sharing
        for problem in _of_host(host, sets, host.name in targets, bool(fleet.monitors))
    ]
    return [*refusals, *equal_addresses(sharing, "have the same address, and both share files")]


def _images(hosts: list[Host]) -> set[str]:
    """Digests of the images that hosts share."""
    rows = ((host, release_row(host.release)) for host in hosts)
    return {image.digest for host, row in rows if row and (image := image_of(host, row)).shared_port}


def _of_host(host: Host, sets: int, is_asked: bool, is_watched: bool) -> Iterator[Refusal]:
    assert host.sharing
    if not is_reachable(address_of(host)):
        yield no_address(host, "this host declares no address at which other hosts fetch its files")
    first, last = host.sharing.port, host.sharing.port + max(sets, 1) - 1
    taken = taken_with_gateway(host)
    taken |= {host.traffic.gateways_port: "traffic.gateways_port"} if is_asked else {}
    taken |= OURS if is_watched else {}
    wrong = [port for port in range(first, last + 1) if port in taken]
    if not 1024 <= first <= last <= 65535:
        yield refuse(
            "port-range",
            f"{first} cannot be the first of {sets} ports for sets of files",
            where="sharing.port",
            seen=f"{first}",
            wanted=f"1024 to {65536 - max(sets, 1)}: each set has a port of its own",
            attempt=f"Sharing(port={Sharing().port}), the default",
        )
    elif wrong:
        yield refuse(
            "port-twice",
            f"port {wrong[0]} is used twice on one host",
            where="sharing.port",
            seen=f"{first} to {last}, one for each of {sets} sets of files; {wrong[0]} is also {taken[wrong[0]]}",
            wanted="ports of their own",
            attempt=f"Sharing(port={_free(taken, sets)})",
        )
    images = host.sharing.images_port
    if images and (images in taken or first <= images <= last or not 1024 <= images <= 65535):
        yield refuse(
            "port-twice",
            f"port {images} cannot be the port from which Docker pulls images on loopback",
            where="sharing.images_port",
            seen=f"{images}; {taken.get(images) or f'sharing has {first} to {last}'}",
            wanted="1024 to 65535, and a port of its own",
            attempt=f"Sharing(images_port={first - 1})",
        )


def _free(taken: dict[int, str], sets: int) -> int:
    return next(
        port for port in range(Sharing().port, 65536) if not any(port + more in taken for more in range(max(sets, 1)))
    )
