"""Parsed manifests of an export, and the host's own files for comparison."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.cli.rendered import served
from deploy.exports.kubernetes.manifests import files
from deploy.exports.kubernetes.weights import Storage
from deploy.exports.served import Served
from deploy.io.export_folder import programs
from deploy.io.inventory import host_data, load_plan
from deploy.planning.plan import Plan

INVENTORIES = ("h100", "fleet", "mig", "from_ansible")
"""Shipped inventories that Pods can serve: a gateway, several hosts, several servers with MIG, encoders alone."""


@functools.cache
def rendered(inventory: str) -> Served:
    """A shipped inventory as its roles render it."""
    file = f"inventories/{inventory}.py"
    return of_plan(load_plan(file, (), (), {}), file, host_data(file))


def of_plan(plan: Plan, file: str = "inventories/h100.py", data: dict[str, dict[str, Any]] | None = None) -> Served:
    """A plan as its roles render it."""
    return served(plan, file, data or {}, programs())


@functools.cache
def texts(inventory: str) -> dict[str, str]:
    """The files of an export."""
    return files(rendered(inventory), "enginehouse", Storage())


def objects(written: dict[str, str], kind: str = "") -> list[dict[str, Any]]:
    """The objects of all manifests, or those of a kind."""
    names = [name for name in written if name.endswith(".yaml") and not name.endswith("kustomization.yaml")]
    read = [object_ for name in names for object_ in parsed(written[name])]
    return [object_ for object_ in read if not kind or object_["kind"] == kind]


@functools.cache
def parsed(text: str) -> list[dict[str, Any]]:
    """The objects of one file."""
    return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def named(written: dict[str, str], kind: str, name: str) -> dict[str, Any]:
    """The object of this kind and name."""
    (match,) = [object_ for object_ in objects(written, kind) if object_["metadata"]["name"] == name]
    return match


def container(deployment: dict[str, Any], name: str) -> dict[str, Any]:
    """A container of a Deployment's Pod, sidecars included."""
    pod = deployment["spec"]["template"]["spec"]
    return next(box for box in [*pod["initContainers"], *pod["containers"]] if box["name"] == name)


@dataclass
class StartLine:
    """The `docker run` of a release's `run`, parsed by regular expressions, without code of the renderer."""

    image: str
    words: list[str]
    user: str
    published: dict[int, int]
    mounts: dict[str, bool]
    """True if it is read-only, by the path inside."""
    environment: dict[str, str]
    tmpfs_mib: int
    shm_mib: int
    devices: list[str]
    switches: set[str] = field(default_factory=set)


def start_line(run: bytes, release: str) -> StartLine:
    """The arguments of a `run` or `llm/run` of the release in this directory."""
    text = re.sub(r"(?m)^\s*#.*$", "", run.decode().replace("\\\n", " "))
    text = text.replace('"$release"', release).replace('"$release/', f'"{release}/').replace("$release", release)
    options, _, command = text.rpartition('exec docker run "${options[@]}" ')
    image, *words = command.replace('"', "").split()
    mounts = re.findall(r"--mount type=bind,source=\S+?,target=([^\s,]+)(,readonly)?", options)
    return StartLine(
        image=image,
        words=[*re.findall(r"--entrypoint (\S+)", options), *words],
        user=re.findall(r"--user (\S+)", options)[0],
        published={int(a): int(b) for a, b in re.findall(r"--publish \S+:(\d+):(\d+)", options)},
        mounts={path: bool(readonly) for path, readonly in mounts},
        environment=dict(re.findall(r"--env (\w+)=(\S+)", options)),
        tmpfs_mib=int(re.findall(r"--tmpfs /tmp:\S*size=(\d+)m", options)[0]),
        shm_mib=int(re.findall(r"--shm-size (\d+)m", options)[0]),
        devices=re.findall(r"--device (\S+)", options),
        switches={word for word in ("--read-only", "--cap-drop ALL", "no-new-privileges") if word in options},
    )


def unit_times(text: str) -> dict[str, int]:
    """TimeoutStartSec and TimeoutStopSec of a unit's drop-in."""
    return {name: int(value) for name, value in re.findall(r"(Timeout\w+Sec)=(\d+)", text)}
