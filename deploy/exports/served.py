"""A host as its roles render it: releases, start lines, gateway, weights. Exports only wrap these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.slices.container import ContainerSlice
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import ServerSlice, Slice


@dataclass(frozen=True, kw_only=True)
class ServedServer:
    """A server with its release and its containers."""

    slice: ServerSlice
    release: str
    """The release's id."""
    path: str
    """The release's directory on the host, and inside the container."""
    files: Mapping[str, bytes]
    """Files by path inside the release, without the wheels' files."""
    wheels: tuple[dict[str, str], ...]
    """name, version and sha256 of the packages that repair the image."""
    triton: ContainerSlice
    llm: ContainerSlice | None
    """The program beside Triton."""
    start_seconds: int
    """TimeoutStartSec of the server's unit."""
    stop_seconds: int
    """TimeoutStopSec of the server's unit."""


@dataclass(frozen=True, kw_only=True)
class ServedGateway:
    """The gateway of a host: the settings of its processes, and the start line of its unit."""

    slice: GatewaySlice
    settings: dict[str, Any]
    folder: str
    """The directory with settings and keys."""
    directory: str
    """The working directory: the version of its programs."""
    environment: str
    """The virtual environment."""
    command: tuple[str, ...]
    """The command without the process's number."""
    sources: Mapping[str, bytes]
    """Files of the package `gateway`, by path inside it."""
    requirements: str
    """The locked packages of its Python, with hashes."""


@dataclass(frozen=True, kw_only=True)
class ServedHost:
    """A host of the plan."""

    slice: Slice
    servers: tuple[ServedServer, ...]
    gateway: ServedGateway | None
    weights: Mapping[str, str]
    """Settings by which `host fetch` brings each set of weights, by path on the host."""
    traffic: str
    """Settings of the service that tells balancers whether a server is ready; empty without such a service."""
    authority: str
    """Certificate of the hub's private authority; empty if the hub has a public one."""
    watch_seconds: int
    answer_seconds: int
    misses: int
    keep_releases: int


@dataclass(frozen=True, kw_only=True)
class Served:
    """All hosts of a plan, and the programs of files/host that Pods run."""

    digest: str
    inventory: str
    hosts: tuple[ServedHost, ...]
    programs: Mapping[str, str]
    """Programs by path below the programs' directory."""
    programs_path: str
    settings_path: str
    branches: tuple[str, ...]
    """Driver branches of the fleet; their ends of support raise alerts."""
