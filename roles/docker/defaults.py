"""Files that the docker role owns or merges into, and its settings (`docker_settings`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.catalog import DOCKER_FLOOR
from deploy.inventory.knobs import FINGERPRINT, URL, Range, Text
from roles._pyinfra.settings import overridden
from roles._shipping.apt import keep_from_upgrades

DAEMON = "/etc/docker/daemon.json"
CONTAINERD = "/etc/containerd/config.toml"
NEEDRESTART = "/etc/needrestart/conf.d/52-enginehouse-docker.conf"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades("docker", ("^docker", "^containerd", "^runc$"))
# needrestart exempts docker.service but not containerd, and on Ubuntu 24.04 it restarts without asking.
NEEDRESTART_CONTENT = "".join(
    f"$nrconf{{override_rc}}{{qr(^{unit})}} = 0;\n" for unit in ("docker", "containerd", "triton@")
)


@dataclass(frozen=True)
class Defaults:
    """Repository, floor and the bounds of logs."""

    repository: Annotated[str, URL] = "https://download.docker.com/linux"
    """Docker's own; `Mirrors(docker=…)` names another place."""
    key_fingerprint: Annotated[str, FINGERPRINT] = "9DC858229FC7DD38854AE2D88D81803C0EBFCD88"
    """A key with another fingerprint is not trusted."""
    engine_floor: Annotated[str, Text(r"\d+\.\d+(\.\d+)?", "a version such as 26.1")] = DOCKER_FLOOR
    """The first Docker that reads CDI schema 0.7.0, which the container toolkit writes since 1.19."""
    log_max_mib: Annotated[int, Range(1, 100_000)] = 50
    """MiB of one log file of a container."""
    log_files: Annotated[int, Range(1, 1000)] = 4
    """Log files of each container; the oldest is removed first."""
    confirm_seconds: Annotated[int, Range(10, 3600)] = 90
    """Seconds after a restart within which a new SSH connection must confirm the settings; unconfirmed settings are
    reverted."""


def settings(host: Host) -> Defaults:
    return overridden(host, "docker", Defaults())
