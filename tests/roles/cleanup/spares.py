"""A host for `clean-up`: its folder, with stand-ins of systemd and Docker."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from host import clean_up, places, superseded_programs

KEEP = {"weights": 1, "engines": 1, "images": 0, "failed": 1}


class Host:
    """ROOT of a host with one server; ages are in steps; a larger age is older, and all files are years old."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        self.active, self.swap, self.pull, self.containers = "active", "inactive", "inactive", ""
        self.docker: list[list[str]] = []
        for name in ("releases", "cache", "servers/main", "weights/llama", "engines/llama", "images"):
            (root / name).mkdir(parents=True)
        for place in ("SETTINGS", "PROGRAMS", "UNITS"):
            monkeypatch.setattr(places, place, root / place.lower())
        monkeypatch.setattr(places, "ROOT", root)
        monkeypatch.setattr(superseded_programs, "TRANSIENT", root / "transient")
        monkeypatch.setattr(superseded_programs, "PROCESSES", root / "proc")
        monkeypatch.setattr(clean_up.subprocess, "run", self._run)

    def _run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if command[-1].startswith("enginehouse-pull@"):
            return subprocess.CompletedProcess(command, 3, stdout=f"{self.pull}\n")
        if command[0] == "systemctl":
            return subprocess.CompletedProcess(command, 0, stdout=f"{self.active}\n{self.swap}\n")
        self.docker.append(command)
        return subprocess.CompletedProcess(command, 0, stdout=self.containers if command[1] == "ps" else "")

    def make(self, path: str, age: int = 0) -> Path:
        """Makes a directory of this age with a file in it."""
        made = self.root / path
        made.mkdir(parents=True)
        (made / "file").write_text("x")
        os.utime(made, (1_000_000_000 - age, 1_000_000_000 - age))
        return made

    def release(self, name: str, age: int = 0, image: str = "new", uses: str = "") -> None:
        """Publishes a release that mounts `uses`."""
        made = self.make(f"releases/{name}", age)
        (made / "server.json").write_text(json.dumps({"server": "main", "image": {"pull_reference": image}}))
        (made / "run").write_text(f"  --mount type=bind,source={self.root / uses},target=x,readonly\n" if uses else "")
        os.utime(made, (1_000_000_000 - age, 1_000_000_000 - age))

    def link(self, link: str, release: str) -> None:
        """Points `current` or `previous` to the release."""
        (self.root / "servers/main" / link).symlink_to(f"../../releases/{release}")

    def image(self, name: str, blobs: str = "") -> None:
        """Records a pulled image; `blobs` is the folder from which other hosts read its blobs."""
        record = self.root / f"images/{name}.json"
        record.write_text(json.dumps({"reference": name} | ({"blobs": str(self.root / blobs)} if blobs else {})))
        os.utime(record, (1_000_000_000, 1_000_000_000))

    def wants(self, release: str, hours_ago: float = 0) -> None:
        """Requests a swap to the release, this long ago."""
        wanted = self.root / "servers/main/wanted.json"
        wanted.write_text(json.dumps({"release": release}))
        os.utime(wanted, (time.time() - hours_ago * 3600,) * 2)

    def days_pass(self, days: int) -> None:
        """Moves the program's clock forward: a test cannot backdate a directory's ctime."""
        began = time.time()
        self.monkeypatch.setattr(clean_up.time, "time", lambda: began + days * 24 * 3600)

    def call(self, verb: str = "remove", **kept: Any) -> None:
        """Calls the program with the items to keep."""
        plan = {"weights": [], "engines": [], "images": ["new"], "keep": KEEP} | kept
        assert clean_up.main([verb, json.dumps(plan)]) == 0

    def has(self, folder: str) -> list[str]:
        """Names in a folder."""
        return sorted(path.name for path in (self.root / folder).iterdir())


def now(path: Path) -> None:
    """Sets the file's time to now."""
    os.utime(path)
