"""Packages, repositories and wheels that a bundle must have for the hosts of an inventory."""

from collections.abc import Iterable, Mapping
from typing import Any

from deploy.catalog import SYSTEMS
from deploy.io.bundle_apt import Need, Repository, system_repository
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import Mirrors
from roles._shipping import apt
from roles._shipping.texts import HERE
from roles.base.defaults import Defaults as BaseDefaults
from roles.container_toolkit import defaults as toolkit_defaults
from roles.container_toolkit.operations import repository as toolkit_repository
from roles.docker.defaults import Defaults as DockerDefaults
from roles.docker.operations import WantedDocker
from roles.exporters.defaults import PACKAGE as NODE_EXPORTER
from roles.gateway.wheels import download_words, requirements
from roles.monitor.defaults import PACKAGES as MONITOR_PACKAGES
from roles.nvidia_driver import packages as driver_packages
from roles.nvidia_driver.defaults import Defaults as DriverDefaults
from roles.nvidia_driver.operations import WantedDriver

CLOCK = "systemd-timesyncd"
Support = BalancerSlice | MonitorSlice


def needs(
    slices: Iterable[Slice | Support], data: Mapping[str, Mapping[str, Any]], kernels: Mapping[str, Iterable[str]]
) -> tuple[Need, ...]:
    """Packages to fetch for these hosts, without repetitions. `kernels`: the kernels by OS that need headers."""
    wanted = dict[Need, None]()
    for mine in slices:
        own = data.get(mine.host, {})
        if not isinstance(mine, Slice):
            wanted[support_need(mine, own)] = None
            continue
        for kernel in kernels.get(mine.machine.os) or ("",):
            wanted[need(mine, own, kernel)] = None
    return tuple(wanted)


def need(mine: Slice, data: Mapping[str, Any], kernel: str = "") -> Need:
    """Packages to fetch for one host, with headers for `kernel`, or for the newest kernel of its OS."""
    names = packages(mine, data) | headers(mine, kernel)
    pins = tuple(sorted(f"{name}={version}" if version else name for name, version in names.items()))
    branch = mine.driver.version or mine.driver.branch
    is_nvidia = mine.driver.manage and mine.driver.source == "nvidia"
    return Need(mine.machine.os, pins, repositories(mine, data), branch if is_nvidia else "")


def support_need(mine: Support, data: Mapping[str, Any]) -> Need:
    """Packages to fetch for a balancer or a monitor: all of them are the distribution's."""
    return Need(mine.os, wanted_packages(mine, data), (_distribution(mine.os, mine.mirrors),))


def wanted_packages(mine: Slice | Support, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The packages of a host as a bundle's list names them; headers depend on the running kernel."""
    names = packages(mine, data) if isinstance(mine, Slice) else support_packages(mine, data)
    return tuple(sorted(f"{name}={version}" if version else name for name, version in names.items()))


def support_packages(mine: Support, data: Mapping[str, Any]) -> dict[str, str]:
    """Every package that a role may install on a balancer or a monitor, in any version."""
    names = dict.fromkeys((*_tools(data), *([NODE_EXPORTER] if mine.exporters else [])), "")
    names |= dict.fromkeys(MONITOR_PACKAGES if isinstance(mine, MonitorSlice) else ("haproxy",), "")
    return names | ({"nftables": ""} if mine.firewall else {})


def _tools(data: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(data.get("base_settings") or {}).get("packages", BaseDefaults().packages), CLOCK)


def packages(mine: Slice, data: Mapping[str, Any]) -> dict[str, str]:
    """Name and version pattern of every package that a role may install on this host; headers are left out."""
    disk = mine.data_disk()
    names = dict.fromkeys(_tools(data), "")
    names |= {"xfsprogs" if disk.file_system == "xfs" else "e2fsprogs": ""} if disk else {}
    names |= WantedDocker.of(mine, _settings(data, "docker", DockerDefaults)).packages
    names |= dict.fromkeys(toolkit_defaults.PACKAGES, mine.toolkit_version)
    if mine.driver.manage:
        names |= driver_packages.pinning(mine)
        wanted = driver_packages.wanted(mine, "")
        names |= {name: version for name, version in wanted.items() if name != "linux-headers-"}
        names |= dict.fromkeys(driver_packages.fabric_manager(mine, "") if mine.driver.fabric_manager else (), "")
    if mine.gateway:
        names |= {"python3-venv": "", "libseccomp2": ""}
    if mine.https or mine.mutual:
        names["haproxy"] = ""
    if mine.https and mine.https.acme:
        names["certbot"] = ""
    names |= {"python3-libtorrent": ""} if mine.sharing else {}
    names |= {"nftables": ""} if mine.firewall else {}
    names |= {NODE_EXPORTER: ""} if mine.exporters else {}
    return names


def headers(mine: Slice, kernel: str) -> dict[str, str]:
    """The headers for building the driver's module; none if the module comes built, or is not managed."""
    if not (mine.driver.manage and mine.driver.source == "nvidia"):
        return {}
    newest = "amd64" if SYSTEMS[mine.machine.os].distribution == "debian" else mine.machine.kernel_flavour
    return {f"linux-headers-{kernel or newest}": ""}


def repositories(mine: Slice, data: Mapping[str, Any]) -> tuple[Repository, ...]:
    """The repositories of a host: the distribution's own first."""
    system = _distribution(mine.machine.os, mine.mirrors)
    docker = WantedDocker.of(mine, _settings(data, "docker", DockerDefaults)).repository
    driver = WantedDriver.of(mine, _settings(data, "nvidia_driver", DriverDefaults)).repository
    toolkit = toolkit_repository(mine, _settings(data, "container_toolkit", toolkit_defaults.Defaults))
    others = {"nvidia": driver if mine.driver.manage else None, "docker": docker, "toolkit": toolkit}
    return (system, *(_plain(name, repository) for name, repository in others.items() if repository))


def _distribution(os: str, mirrors: Mirrors) -> Repository:
    mirror = mirrors.system
    return system_repository(os, mirror.url.rstrip("/") if mirror else "", mirror.key_file if mirror else "")


def _plain(name: str, repository: apt.Repository) -> Repository:
    return Repository(
        name=name,
        url=repository.url.rstrip("/"),
        lines=(repository.path,),
        key_file=repository.key_file,
        key_url=repository.key_url,
        fingerprint=repository.key_fingerprint,
    )


def _settings(data: Mapping[str, Any], role: str, defaults: Any) -> Any:
    return defaults(**(data.get(f"{role}_settings") or {}))


def wheels(slices: Iterable[Slice]) -> list[tuple[str, tuple[str, ...]]]:
    """(requirements, arguments of pip): the control machine's packages for this Python, and gateways' for their
    hosts'."""
    own = ("download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
    pythons = sorted({SYSTEMS[mine.machine.os].python for mine in slices if mine.gateway})
    gateways = [(requirements(python), tuple(download_words(python))) for python in pythons]
    return [((HERE / "locks/requirements.lock").read_text("utf-8"), own), *gateways]
