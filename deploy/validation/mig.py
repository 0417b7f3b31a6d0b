"""A machine cut into MIG instances: profiles that its GPUs offer, together, in the driver's order, one for each server.

The memory of an instance is judged with the models, by the same checks as for a whole GPU.
"""

from collections.abc import Iterator

from deploy.catalog.mig import COMPUTE_SLICES, PROFILES, MigProfile, places, profiles_of, rank
from deploy.catalog.names import offer
from deploy.models.cards import declared_card, planned_card
from deploy.refusals import Refusal, refuse, server_at
from deploy.spec import Host, Server

WHERE = "machine.mig"


def mig_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the GPUs' instances and their use; none if the GPUs are whole."""
    machine = host.machine
    if not machine.mig or machine.card or declared_card(machine) is None:
        return
    if not profiles_of(machine.gpu):
        yield _cannot(host)
        return
    unknown = list(dict.fromkeys(name for name in machine.mig if (machine.gpu, name) not in PROFILES))
    yield from (_unknown(host, name) for name in unknown)
    if not unknown:
        yield from _together(host, [PROFILES[machine.gpu, name] for name in machine.mig])
    for server in host.servers:
        yield from _instances(host, server)


def _cannot(host: Host) -> Refusal:
    capable = sorted({gpu for gpu, _ in PROFILES})
    return refuse(
        "mig-not-offered",
        f"the catalog has no MIG profiles of {planned_card(host.machine).title}, so it cannot be cut",
        where=WHERE,
        seen=str(host.machine.mig),
        wanted=f"() on this card; MIG is for {', '.join(capable)}",
        attempt="mig=(), and several models in one server share the card",
    )


def _unknown(host: Host, name: str) -> Refusal:
    offered = [row.name for row in profiles_of(host.machine.gpu)]
    return refuse(
        "mig-profile",
        f"{planned_card(host.machine).title} has no MIG profile {name}",
        where=WHERE,
        seen=repr(name),
        wanted="a profile's name as `nvidia-smi mig -lgip` prints it, without the word MIG",
        attempt=offer(name.removeprefix("MIG ").strip(), offered),
    )


def _together(host: Host, profiles: list[MigProfile]) -> Iterator[Refusal]:
    if places(profiles) is None:
        compute = sum(profile.compute_slices for profile in profiles)
        memory = sum(profile.memory_slices for profile in profiles)
        starts = "; ".join(_room(profile) for profile in dict.fromkeys(profiles))
        yield refuse(
            "mig-does-not-fit",
            f"{' + '.join(host.machine.mig)} do not fit on one {planned_card(host.machine).title}",
            where=WHERE,
            seen=f"{compute} compute slices of {COMPUTE_SLICES}, {memory} memory slices of 8",
            wanted=f"a placement for each instance without overlap: {starts}",
            attempt=f"mig={_without_the_last(profiles)}",
        )
        return
    ordered = sorted(profiles, key=rank)
    if [rank(profile) for profile in profiles] != [rank(profile) for profile in ordered]:
        yield refuse(
            "mig-order",
            "the driver numbers larger instances first, so a server's gpus would select other instances than these",
            where=WHERE,
            seen=str(host.machine.mig),
            wanted="the larger profile before the smaller",
            attempt=f"mig={tuple(profile.name for profile in ordered)}",
        )


def _without_the_last(profiles: list[MigProfile]) -> tuple[str, ...]:
    """The longest beginning of the list that fits, in the driver's order."""
    kept: list[MigProfile] = []
    for profile in profiles:
        if places([*kept, profile]) is not None:
            kept.append(profile)
    return tuple(profile.name for profile in sorted(kept, key=rank))


def _instances(host: Host, server: Server) -> Iterator[Refusal]:
    cut, gpus, place = len(host.machine.mig), host.machine.gpus, server_at(server.name, "gpus")
    missing = [index for index in server.gpus if not 0 <= index < gpus * cut]
    if missing and gpus > 0:
        instances = " · ".join(f"{index} {name}" for index, name in enumerate(host.machine.mig))
        yield refuse(
            "mig-index",
            f"server {server.name} wants MIG instance {missing[0]} of a machine with {gpus * cut}",
            where=place,
            seen=str(server.gpus),
            wanted=f"0 to {gpus * cut - 1}; on GPU 0: {instances}",
            attempt="gpus=(0,), or one profile more in machine.mig",
        )
    if len(set(server.gpus)) > 1:
        yield refuse(
            "mig-several",
            f"server {server.name} wants {len(set(server.gpus))} MIG instances, and a process can use only one",
            where=place,
            seen=str(server.gpus),
            wanted="one instance a server: CUDA enumerates a single one, and there is no peer access between two",
            attempt=f"gpus=({min(server.gpus)},) and a larger profile, or mig=() and tensor parallel on whole GPUs",
        )


def _room(profile: MigProfile) -> str:
    return f"{profile.name} at {', '.join(map(str, profile.starts))}, {profile.most} at most"
