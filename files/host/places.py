"""Paths on this host, used as `places.ROOT`, so that a test can redirect the host into a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
SETTINGS = Path(os.environ.get("ENGINEHOUSE_SETTINGS", "/etc/enginehouse"))
RUNTIME = Path(os.environ.get("ENGINEHOUSE_RUNTIME", "/run/enginehouse"))
LOCK = Path(os.environ.get("ENGINEHOUSE_LOCK", "/run/enginehouse.lock"))
"""The lock of a run on this host (roles/_pyinfra/hold.py)."""
PROGRAMS = Path(os.environ.get("ENGINEHOUSE_PROGRAMS", "/usr/local/lib/enginehouse"))
DOCKER = Path(os.environ.get("ENGINEHOUSE_DOCKER", "/etc/docker/daemon.json"))
UNITS = Path(os.environ.get("ENGINEHOUSE_UNITS", "/etc/systemd/system"))


def server(name: str) -> Path:
    return ROOT / "servers" / name


def release(release_id: str) -> Path:
    return ROOT / "releases" / release_id


def docker_root() -> Path:
    """Docker's data directory."""
    try:
        return Path(json.loads(DOCKER.read_text()).get("data-root", "/var/lib/docker"))
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return Path("/var/lib/docker")
