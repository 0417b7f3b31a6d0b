"""Paths on this host, used as `places.ROOT`, so that a test can redirect the host into a folder."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
SETTINGS = Path(os.environ.get("ENGINEHOUSE_SETTINGS", "/etc/enginehouse"))
RUNTIME = Path(os.environ.get("ENGINEHOUSE_RUNTIME", "/run/enginehouse"))
LOCK = Path(os.environ.get("ENGINEHOUSE_LOCK", "/run/enginehouse.lock"))
"""The lock of a run on this host (roles/_pyinfra/hold.py)."""
PROGRAMS = Path(os.environ.get("ENGINEHOUSE_PROGRAMS", "/usr/local/lib/enginehouse"))
UNITS = Path(os.environ.get("ENGINEHOUSE_UNITS", "/etc/systemd/system"))


def server(name: str) -> Path:
    return ROOT / "servers" / name


def release(release_id: str) -> Path:
    return ROOT / "releases" / release_id
