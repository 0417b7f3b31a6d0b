"""Commands for the difference between Docker's facts and the wanted state. Pure; `step` runs them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.catalog import SYSTEMS
from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import apt
from roles.docker import defaults, merge
from roles.docker.defaults import Defaults

OF_DOCKER = ("docker-ce", "docker-ce-cli", "containerd.io")
DISTRIBUTION = ("docker.io", "containerd", "runc")
STOP_SECONDS, START_SECONDS, STOP_MARGIN_SECONDS = 90, 60, 30
"""Seconds that systemd gives docker.service to stop (systemd's default), that the daemon takes to start, and that a
server's end takes beyond its `stop_seconds`, as in the TimeoutStopSec of its unit."""
UNTOUCHED = "no package was installed by the docker role; its settings were not touched"


@dataclass(frozen=True, kw_only=True)
class WantedDocker:
    """The slice's choices for this role; `repository` is None for the distribution's own package."""

    repository: apt.Repository | None
    packages: dict[str, str]
    data_root: str
    restart_seconds: int
    """Seconds for a restart: the servers of this host are drained and stopped first, all at once; then the daemon ends
    the other containers."""
    chosen: Defaults
    extra: Mapping[str, Any]

    @classmethod
    def of(cls, mine: Slice, chosen: Defaults) -> WantedDocker:
        """The wanted Docker of a host's slice. A declared data disk holds its data unless the inventory has a path."""
        disk = mine.data_disk()
        from_docker = mine.docker.source == "docker"
        stops = (mine.drain_seconds + server.stop_seconds + STOP_MARGIN_SECONDS for server in mine.servers)
        return cls(
            repository=_repository(mine, chosen) if from_docker else None,
            packages=dict.fromkeys(OF_DOCKER if from_docker else DISTRIBUTION[:1], ""),
            data_root=mine.docker.data_root or (f"{disk.mount}/docker" if disk else ""),
            restart_seconds=max(stops, default=0) + STOP_SECONDS + START_SECONDS,
            chosen=chosen,
            extra=mine.docker.daemon,
        )


def _repository(mine: Slice, chosen: Defaults) -> apt.Repository:
    system = mine.machine.os
    distribution = system.split("-")[0]
    return apt.Repository(
        name="enginehouse-docker",
        url=chosen.repository,
        path=f"{distribution} {SYSTEMS[system].codename} stable",
        key_url=f"{chosen.repository}/{distribution}/gpg",
        key_fingerprint=chosen.key_fingerprint,
    ).mirrored(mine.mirrors.docker)


def repository(facts: HostFacts, wanted: WantedDocker) -> Iterator[Command]:
    if wanted.repository:
        yield from wanted.repository.missing(facts)


def packages(facts: HostFacts, wanted: WantedDocker) -> Iterator[Command]:
    yield from apt.install(
        wanted.packages,
        facts.packages,
        repository=wanted.repository.name if wanted.repository else "",
        recommends=False,
    )


def daemon(facts: HostFacts, wanted: WantedDocker) -> Iterator[Command]:
    """The command that writes the merged daemon.json: none without a difference, a refusal for an unreadable file."""
    text = b64decode(facts.value("daemon")).decode()
    try:
        current = json.loads(text) if text.strip() else {}
        assert isinstance(current, dict)
    except (ValueError, AssertionError, RecursionError) as error:
        yield Refuse(_unreadable(error))
        return
    new = merge.merged(current, merge.own_keys(current, wanted.chosen, wanted.data_root, wanted.extra))
    if new == current:
        return
    if facts.unit("docker.service").exists:
        yield watched(wanted).keep()
    yield write(defaults.DAEMON, merge.as_file(new))


def watched(wanted: WantedDocker) -> undo.WatchedChange:
    """Docker's settings as a change that may lock us out: a bridge on our network, or firewall rules that Docker
    drops."""
    return undo.WatchedChange(
        name="docker",
        what="Docker's new settings",
        paths=(defaults.DAEMON,),
        after=(undo.DOCKER_BACK,),
        seconds=wanted.chosen.confirm_seconds,
        made_within=wanted.restart_seconds,
        attempt="correct `docker.daemon` in the inventory (bip, default-address-pools, iptables), then run again",
    )


def _unreadable(error: Exception) -> Refusal:
    return Refusal(
        f"{defaults.DAEMON} is not a JSON object, so nothing can be merged into it",
        facts={"found": str(error) or "another JSON value", "wanted": "an object, or no file"},
        attempt=f"correct it by hand (dockerd --validate --config-file {defaults.DAEMON}), then run again",
        state=UNTOUCHED,
        kind="daemon-json",
    )


def image_store(facts: HostFacts, wanted: WantedDocker) -> Iterator[Command]:
    """The command that moves containerd's root beside the data root.

    Docker 29 keeps images in containerd on fresh hosts, older versions under the data root. An image has 15 GB, so both
    are moved.
    """
    config = b64decode(facts.value("containerd")).decode()
    new = merge.with_root(config, f"{wanted.data_root.rstrip('/').rsplit('/', 1)[0]}/containerd")
    if new != config:
        yield write(defaults.CONTAINERD, new)


def run(facts: HostFacts, wanted: WantedDocker) -> Iterator[Command]:
    """Commands after which the daemon runs with the settings on disk and starts at boot."""
    if not facts.unit("docker.service").exists:
        return
    if not facts.unit("docker.service").starts_at_boot:
        yield "systemctl enable docker.service"
    if facts.value("stale-containerd"):
        yield "systemctl restart containerd.service"
    if facts.value("stale-docker") or facts.value("stale-containerd"):
        # The check comes first, because a restart with invalid settings would stop a running daemon.
        yield f"dockerd --validate --config-file {defaults.DAEMON} >/dev/null"
        yield from watched(wanted).around([], risky=_brought("restart"))
    elif not facts.unit("docker.service").runs:
        yield from watched(wanted).around([], risky=_brought("start"))
    elif facts.value("unconfirmed"):
        # A package upgrade restarted the daemon with these settings, or a run was interrupted. A daemon that is still
        # starting is awaited, because a login before it has applied its settings proves nothing.
        yield from watched(wanted).around([], risky=_brought("start"))


def _brought(verb: str) -> str:
    """The shell that starts or restarts the daemon, even after systemd gave up; it shows the log on failure."""
    forgiven = "systemctl reset-failed docker.service docker.socket 2>/dev/null"
    shown = "{ journalctl -u docker.service -n 15 -o cat >&2; false; }"
    return f"{{ {forgiven}; systemctl {verb} docker.service || {shown}; }}"


def hold_packages(facts: HostFacts) -> Iterator[Command]:
    yield from apt.hold((*OF_DOCKER, *DISTRIBUTION), facts.packages)


def guards() -> dict[str, str]:
    return {defaults.UPGRADES: defaults.UPGRADES_CONTENT, defaults.NEEDRESTART: defaults.NEEDRESTART_CONTENT}
