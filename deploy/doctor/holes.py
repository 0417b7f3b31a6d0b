"""Findings about known security holes: the versions that the host reported, compared with the catalog's table."""

from collections.abc import Iterable, Iterator
from datetime import date

from deploy.catalog.drivers import DRIVER_BRANCHES
from deploy.catalog.holes import (
    COMPONENTS,
    EFFECTS,
    REACHES,
    Component,
    Hole,
    holes_in,
    holes_in_package,
    is_mended_on_offer,
    release_of_core,
    table_age,
)
from deploy.catalog.releases import DEFAULT_RELEASE
from deploy.catalog.versions import version
from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings
from deploy.doctor.remedies import DEPLOY
from deploy.doctor.wanted import Wanted, WantedServer

HOLE_KINDS = ("hole-strangers", "hole-known", "toolkit-old")
"""Kinds of the findings that report a known hole of a host."""
_OF_DISTRIBUTION: dict[str, Component] = {
    "haproxy": "haproxy",
    "docker.io": "docker",
    "containerd": "containerd",
    "runc": "runc",
}
_OF_UPSTREAM: dict[str, Component] = {"docker-ce": "docker", "containerd.io": "containerd", "runc-binary": "runc"}
"""Packages that carry the upstream number; `runc-binary` is the runc inside containerd.io."""


def hole_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """A finding for each component with known holes; one about the table if it is old.

    Holes of an image that no offered release closes are left to the plan's notes: there is no command against them.
    """
    for row in readings.rows("images"):
        if len(row) >= 3 and row[1] == "triton_core":
            yield from _of_image(row[0], row[2], row[4] if len(row) > 4 else "", wanted)
    loaded = readings.text("loaded").strip()
    newest = DRIVER_BRANCHES[branch].newest if (branch := loaded.partition(".")[0]) in DRIVER_BRANCHES else ""
    yield from _known(
        "driver",
        loaded,
        holes_in("driver", loaded),
        f"{DEPLOY} where the inventory's Driver has a newer version{f', {newest}' if newest else ''}",
    )
    for row in readings.rows("installed"):
        if len(row) == 2:
            yield from _of_package(row[0], row[1], wanted)
    if wanted.today != date.min and (age := table_age(wanted.today)):
        yield finding_of("holes-unread", age)


def _of_image(name: str, core: str, trtllm: str, wanted: Wanted) -> Iterator[Finding]:
    server = next((server for server in wanted.servers if server.name == name), WantedServer(name, ""))
    release = release_of_core(core, DEFAULT_RELEASE)
    holes = [
        hole
        for hole in (*holes_in("triton", release), *holes_in("tensorrt-llm", trtllm))
        if hole.id not in server.accepted_holes and is_mended_on_offer(hole)
    ]
    strangers = [hole for hole in holes if hole.opens_to_strangers and not server.is_local]
    if strangers:
        first = max((hole.fixed[-1] for hole in strangers), key=version)
        yield finding_of("hole-strangers", f"Triton {core} at {server.address}: {_ids(strangers)}", name, what=first)
    rest = [hole for hole in holes if hole not in strangers]
    attempt = f'release="{DEFAULT_RELEASE}" in the inventory, then {DEPLOY}'
    yield from _known("triton", core, [hole for hole in rest if hole.component == "triton"], attempt, name)
    yield from _known("tensorrt-llm", trtllm, [hole for hole in rest if hole.component != "triton"], attempt, name)


def _of_package(name: str, text: str, wanted: Wanted) -> Iterator[Finding]:
    package = "containerd.io" if name == "runc-binary" else name
    upgrade = f"apt-get install --only-upgrade --allow-change-held-packages {package}"
    attempt = f"on the host: sudo apt-get update && sudo {upgrade} (an upgrade of Docker ends the containers)"
    if name in _OF_UPSTREAM:
        component, number = _OF_UPSTREAM[name], text.rpartition(":")[2]
        yield from _known(component, number, holes_in(component, number), attempt)
    elif name in _OF_DISTRIBUTION:
        component = _OF_DISTRIBUTION[name]
        yield from _known(component, text, holes_in_package(component, wanted.os, text), attempt)


def _known(
    component: Component, number: str, holes: Iterable[Hole], attempt: str, subject: str = ""
) -> Iterator[Finding]:
    """The finding for all holes of a component, the worst effect first."""
    listed = sorted(holes, key=lambda hole: list(EFFECTS).index(hole.effect))
    if listed:
        worst = listed[0]
        effect = f"{EFFECTS[worst.effect]}, for {REACHES[worst.reach]}"
        yield finding_of(
            "hole-known", f"{COMPONENTS[component]} {number}: {_ids(listed)} ({effect})", subject, what=attempt
        )


def _ids(holes: Iterable[Hole]) -> str:
    return ", ".join(hole.id for hole in holes)
