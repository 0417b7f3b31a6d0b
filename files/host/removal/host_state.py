"""The host during a removal: paths, the recorded state before the project, and calls of its programs.

Only this package is sent to the host, so helpers of other modules are repeated here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

PREFIX = os.environ.get("ENGINEHOUSE_PREFIX", "")
SETTINGS, DATA = f"{PREFIX}/etc/enginehouse", f"{PREFIX}/var/lib/enginehouse"
BEFORE = Path(f"{SETTINGS}/before")
LABELS = ("enginehouse.server", "enginehouse.llm", "enginehouse.build", "io.enginehouse.probe", "enginehouse.exporter")
ENVIRONMENT = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8"}
Step = tuple[str, Callable[[], object]]
"""A step of the removal: the item in words, and the function that removes the item."""


def no_act() -> None:
    """Makes no change; the function of a step that only reports a kept item."""


def recorded(name: str) -> set[str]:
    """A list from the record of the first deploy; empty without a record."""
    path = BEFORE / name
    return set(path.read_text().split()) if path.exists() else set()


def docker(*words: str) -> list[str]:
    return run("docker", *words).splitlines()


def run(*command: str) -> str:
    try:
        return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def empty(*paths: str) -> None:
    for path in paths:
        if path == DATA and os.path.isdir(path):
            set_aside(Path(path))
        if os.path.ismount(path):
            for inner in Path(path).iterdir():
                shutil.rmtree(inner) if inner.is_dir() and not inner.is_symlink() else inner.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def set_aside(data: Path) -> None:
    """Renames everything first, so that a later deploy does not mistake a partial directory for a complete one."""
    folders = [path for path in data.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != "."]
    for folder in folders:
        gone = folder.with_name(f".{folder.name}.removing")
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(OSError):  # a mount point cannot be renamed
            folder.rename(gone)
    os.sync()


def remove_empty(*folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def gib(path: str) -> float:
    """GiB of disk that a directory takes."""
    cells = run("du", "-s", "--block-size=1M", path).split()
    return round(int(cells[0]) / 1024, 1) if cells else 0.0


def contents(path: str) -> str:
    return ", ".join(sorted(os.listdir(path))) if os.path.isdir(path) else ""
