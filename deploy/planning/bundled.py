"""Slices of hosts without a network: the same plan, with every source on the host's own loopback.

The loopback port is forwarded over SSH to a read-only server of the bundle on the control machine, which has the
protocols of an apt mirror, a registry and a hub. Pure.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from deploy.models.files import NOWHERE
from deploy.slices.host import Slice, WeightsSlice
from deploy.slices.image import DOCKER_HUB, ImageSlice, registry_of
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import AptMirror, BalancerHost, Host, Hub, Mirrors, MonitorHost, Registry

Support = TypeVar("Support", BalancerSlice, MonitorSlice)

PORT = 5480
"""Port of the host's loopback that leads to the bundle during a run."""
PLACE = f"127.0.0.1:{PORT}"
REPOSITORIES = ("system", "nvidia", "docker", "toolkit")


def with_bundles(slices: Iterable[Slice], hosts: Iterable[Host]) -> tuple[Slice, ...]:
    """The slices; every part of hosts that are not connected comes from their bundle."""
    bundles = {host.name: host.bundle for host in hosts if not host.connected}
    return tuple(_bundled(slice_, bundles[slice_.host]) if slice_.host in bundles else slice_ for slice_ in slices)


def _bundled(mine: Slice, bundle: str) -> Slice:
    mirrors = {name: mirror(mine.machine.os, bundle, name) for name in REPOSITORIES}
    moved: Slice = _on_loopback(mine)
    return replace(
        moved, bundle=bundle, mirrors=Mirrors(**mirrors), registry=Registry(), hub=Hub(endpoint=f"http://{PLACE}")
    )


def support_with_bundles(slices: Iterable[Support], hosts: Iterable[BalancerHost | MonitorHost]) -> tuple[Support, ...]:
    """The slices of balancers or monitors with their sources: a mirror of the distribution, or the bundle for it."""
    declared = {host.name: host for host in hosts}
    return tuple(_support_bundled(slice_, declared[slice_.host]) for slice_ in slices)


def _support_bundled(mine: Support, host: BalancerHost | MonitorHost) -> Support:
    if host.connected:
        return replace(mine, engine_trust=host.engine_trust, mirrors=host.mirrors)
    mirrors = Mirrors(system=mirror(mine.os, host.bundle, "system"))
    return replace(mine, engine_trust=host.engine_trust, mirrors=mirrors, bundle=host.bundle)


def mirror(os: str, bundle: str, name: str) -> AptMirror:
    """The bundle's copy of a repository, at the host's loopback."""
    return AptMirror(url=f"http://{PLACE}/apt/{os}/{name}", key_file=f"{bundle}/keys/{os}-{name}.asc")


def _on_loopback(value: Any) -> Any:
    """The value with every image on loopback, and with every hub model fetched by the host itself."""
    if isinstance(value, ImageSlice):
        return replace(value, reference=_moved(value.reference))
    if isinstance(value, WeightsSlice):
        is_brought = value.repository and value.fetch_on != NOWHERE
        return replace(value, fetch_on="host") if is_brought else value
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _on_loopback(getattr(value, field.name)) for field in fields(value) if field.init}
        return replace(value, **changed)
    if isinstance(value, tuple):
        return tuple(_on_loopback(item) for item in value)
    return value


def _moved(reference: str) -> str:
    registry = registry_of(reference)
    path = reference if registry == DOCKER_HUB and not reference.startswith(DOCKER_HUB) else reference.partition("/")[2]
    return f"{PLACE}/{path}"
