"""A plan with the renderings of the roles: in deploy/, only this module and knobs.py read roles/."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from deploy.catalog.drivers import DRIVER_BRANCHES
from deploy.exports.served import Served, ServedGateway, ServedHost, ServedServer
from deploy.inventory.knobs import SUFFIX
from deploy.planning.plan import Plan
from deploy.slices.host import ServerSlice, Slice

D = TypeVar("D")


def served(plan: Plan, inventory: str, data: Mapping[str, Mapping[str, Any]], programs: Mapping[str, str]) -> Served:
    """Every host of the plan as its roles render it. `data` holds each host's knobs, which the plan has validated."""
    from roles._shipping.places import PROGRAMS, SETTINGS

    return Served(
        digest=plan.digest,
        inventory=inventory,
        hosts=tuple(_host(mine, data.get(mine.host, {})) for mine in plan.slices if mine.servers),
        programs=programs,
        programs_path=PROGRAMS,
        settings_path=SETTINGS,
        branches=tuple(sorted({mine.driver.branch for mine in plan.slices} & DRIVER_BRANCHES.keys())),
    )


def _host(mine: Slice, data: Mapping[str, Any]) -> ServedHost:
    from roles.health.defaults import Defaults as HealthDefaults
    from roles.model_store.operations import fetch_settings
    from roles.triton.defaults import Defaults

    triton, health = _overridden(data, "triton", Defaults()), _overridden(data, "health", HealthDefaults())
    drain_seconds = mine.traffic.drain_seconds if mine.traffic else 0
    return ServedHost(
        slice=mine,
        servers=tuple(_server(server, triton, drain_seconds) for server in mine.servers),
        gateway=_gateway(mine),
        weights=fetch_settings(mine),
        traffic=_traffic(mine),
        authority=Path(mine.hub.ca_file).expanduser().read_text("utf-8") if mine.hub.ca_file else "",
        watch_seconds=health.watch_seconds,
        answer_seconds=health.answer_seconds,
        misses=health.misses,
        keep_releases=triton.keep_releases,
    )


def _server(server: ServerSlice, settings: Any, drain_seconds: int) -> ServedServer:
    from roles._shipping import places
    from roles.triton import llm_files, times
    from roles.triton.release import release_of
    from roles.triton.render import UID, container

    release = release_of(server, settings, drain_seconds)
    return ServedServer(
        slice=server,
        release=release.id,
        path=places.release(release.id),
        files=release.files,
        wheels=tuple(
            {"name": wheel.name, "version": wheel.version, "sha256": wheel.digest} for wheel in release.wheels
        ),
        triton=container(server, settings),
        llm=llm_files.container(server, *server.standalone_llm, settings, UID) if server.standalone_llm else None,
        start_seconds=server.start_seconds + times.START_MARGIN_SECONDS,
        stop_seconds=times.unit_stop_seconds(server, drain_seconds),
    )


def _gateway(mine: Slice) -> ServedGateway | None:
    from roles.gateway import programs
    from roles.gateway.defaults import FOLDER, WANTED
    from roles.gateway.settings import settings
    from roles.gateway.wheels import requirements

    if mine.gateway is None:
        return None
    environment = programs.environment_path(mine.gateway)
    return ServedGateway(
        slice=mine.gateway,
        settings=json.loads(json.dumps(settings(mine, mine.gateway))),
        folder=FOLDER,
        directory=programs.version_path(),
        environment=environment,
        command=(f"{environment}/bin/python", "-B", "-s", "-m", "gateway", "serve", WANTED),
        sources=programs.sources(),
        requirements=requirements(mine.gateway.python),
    )


def _traffic(mine: Slice) -> str:
    from roles.traffic.operations import settings

    if mine.traffic is None or not mine.traffic.servers:
        return ""
    return settings(mine.traffic, [server.name for server in mine.servers if server.standalone_llm]).content


def _overridden(data: Mapping[str, Any], role: str, defaults: D) -> D:
    """The role's settings after the inventory's overrides."""
    overrides = data.get(f"{role}{SUFFIX}") or {}
    return replace(defaults, **overrides)  # type: ignore[type-var]  # every Defaults is a dataclass; D cannot say so
