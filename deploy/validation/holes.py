"""Known holes of a host's planned software: refused if clients from outside could run code through them, else noted."""

from collections.abc import Iterable, Iterator
from datetime import date

from deploy.catalog.holes import HOLES, REACHES, Hole, holes_in, is_mended_on_offer, release_of_core, table_age
from deploy.catalog.names import offer
from deploy.catalog.releases import DEFAULT_RELEASE
from deploy.catalog.versions import version
from deploy.models.resolve import image_of, release_row
from deploy.refusals import Refusal, refuse, server_at
from deploy.spec import Host, Release, Server
from deploy.topology.balancing import is_loopback

PAGE = "deploy/catalog/README.md"
_IDS = [hole.id for hole in HOLES]


def hole_problems(host: Host) -> Iterator[Refusal]:
    """A refusal if outside clients could run code through a hole of the release, and for each invalid acceptance."""
    for server in host.servers:
        yield from _acceptance(server)
    open_holes = [hole for hole in image_holes(host) if hole.opens_to_strangers]
    for server in host.servers:
        if not is_loopback(server.address) and (left := _not_accepted(open_holes, server)):
            yield _refused(host, server, left)


def _not_accepted(holes: Iterable[Hole], server: Server) -> list[Hole]:
    accepted = server.accepts.ids if server.accepts else ()
    return [hole for hole in holes if hole.id not in accepted]


def image_holes(host: Host) -> tuple[Hole, ...]:
    """The known holes of Triton and TensorRT-LLM in a host's image; empty if the release is unknown."""
    row = release_row(host.release)
    if row is None:
        return ()
    image = image_of(host, row)
    return (*holes_in("triton", release_of_core(image.triton_core, row.name)), *holes_in("tensorrt-llm", image.trtllm))


def _refused(host: Host, server: Server, holes: list[Hole]) -> Refusal:
    ids = [hole.id for hole in holes]
    fixed = max((hole.fixed[-1] for hole in holes), key=version)
    pasted = ", ".join(f'"{name}"' for name in ids) + ("," if len(ids) == 1 else "")
    own = isinstance(host.release, Release)
    newer = f'an image with {DEFAULT_RELEASE}: derived_from="{DEFAULT_RELEASE}"' if own else f'"{DEFAULT_RELEASE}"'
    unrouted = "no route to the pool, " if host.pool else ""
    return refuse(
        "known-hole",
        f"{_named(host)} has known holes that let strangers run code, and strangers reach server {server.name}",
        where="release.derived_from" if own else "release",
        seen=f"{', '.join(ids)}; server {server.name} listens on {server.address}",
        wanted=f"Triton {fixed} or newer, which has none of them ({PAGE})",
        attempt=f"{newer if own else f'release={newer}'}; "
        f'or {unrouted}address="127.0.0.1" and a Gateway for the clients; or, of server {server.name}, '
        f'accepts=AcceptedHoles(ids=({pasted}), reason="…")',
    )


def _named(host: Host) -> str:
    if isinstance(host.release, Release):
        row = release_row(host.release)
        core = host.release.triton_core or (row.triton_core if row else "")
        return f"release {host.release.name} (Triton {core})"
    return f"release {host.release}"


def _acceptance(server: Server) -> Iterator[Refusal]:
    if server.accepts is None:
        return
    if not server.accepts.reason.strip():
        yield refuse(
            "no-reason",
            f"server {server.name} accepts known holes and gives no reason",
            where=server_at(server.name, "accepts", "reason"),
            seen=repr(server.accepts.reason),
            wanted="the reason why they may stay open, for later readers of the plan",
            attempt='reason="only our own two services reach this network"',
        )
    for name in server.accepts.ids:
        if name not in _IDS:
            yield refuse(
                "unknown-hole",
                f"server {server.name} accepts {name}, which is not in the table of known holes",
                where=server_at(server.name, "accepts", "ids"),
                seen=repr(name),
                wanted=f"an id that {PAGE} lists",
                attempt=offer(name, _IDS) if name.startswith("CVE-") else f'ids=("{_IDS[0]}",)',
            )


def hole_notices(host: Host, today: date) -> Iterator[str]:
    """Sentences about known holes that are not refused, about acceptances, and about an old table."""
    if age := table_age(today):
        yield age
    holes = image_holes(host)
    open_holes = [hole for hole in holes if hole.opens_to_strangers]
    if open_holes and any(is_loopback(server.address) for server in host.servers):
        yield (
            f"{_named(host)}: whoever reaches Triton's ports can run code ({_listed(open_holes)}); "
            f"fixed in {max((hole.fixed[-1] for hole in open_holes), key=version)}; the plan keeps them on loopback"
        )
    for server in host.servers:
        if server.accepts:
            yield f"server {server.name} accepts {', '.join(server.accepts.ids)}: {server.accepts.reason}"
    yield from _others(host, [hole for hole in holes if not hole.opens_to_strangers])
    if known := holes_in("driver", host.driver.version):
        ids = _listed(known)
        yield f"driver {host.driver.version}: known holes for a local user ({ids}); {PAGE} says what mends them"


def _others(host: Host, holes: list[Hole]) -> Iterator[str]:
    for is_mended, words in (
        (True, f"release {DEFAULT_RELEASE} mends them"),
        (False, "no release on offer mends them"),
    ):
        chosen = [hole for hole in holes if is_mended_on_offer(hole) == is_mended]
        if chosen:
            reaches = dict.fromkeys(REACHES[hole.reach] for hole in chosen)
            yield f"{_named(host)}: {len(chosen)} known holes ({'; '.join(reaches)}); {words}; {PAGE} lists them"


def _listed(holes: Iterable[Hole]) -> str:
    return ", ".join(hole.id for hole in holes)
