"""A Triton server's place on the host: its links and records, and its unit in systemd.

This module defines each single step's state on disk; `swap` orders the steps of a swap.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host import disk, history, places, systemd
from host.systemd import say

LAST_LINES = 20
FRESH_SECONDS = 6 * 3600
"""Seconds for which a published release is kept: it may be another run's, whose swap is still to come."""


class DoesNotServe(Exception):
    """The wanted release does not serve; the text is the reason."""


class Server:
    """The place of a server on the host."""

    def __init__(self, name: str) -> None:
        self.name, self.unit, self.llm = name, f"triton@{name}.service", f"llm@{name}.service"
        self.place = places.server(name)
        self.swap_file, self.wanted_file = self.place / "swap.json", self.place / "wanted.json"

    @contextlib.contextmanager
    def locked(self, wait: bool) -> Iterator[bool]:
        """True while only this process may switch. The kernel releases the lock however the process ends."""
        with (self.place / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                yield True
            except BlockingIOError:
                yield False

    def release(self, link: str) -> str:
        """The id of the release to which a link points; empty without a link."""
        path = self.place / link
        return Path(os.readlink(path)).name if path.is_symlink() else ""

    def has(self, release: str) -> bool:
        return (places.release(release) / "server.json").exists()

    def in_its_way(self, release: str, others: list[str]) -> list[Server]:
        """The servers among `others` whose release uses a port or a device of `release`."""
        candidates = [Server(name) for name in others if name != self.name]
        return [candidate for candidate in candidates if takes(candidate.release("current")) & takes(release)]

    def image_of(self, release: str) -> str:
        """The image of a release; empty if the release is not on this host."""
        path = places.release(release) / "server.json"
        return str(json.loads(path.read_text())["image"]["pull_reference"]) if path.exists() else ""

    def point(self, link: str, release: str) -> None:
        """Points the link to the release, replaced by rename; without a release removes it."""
        path = self.place / link
        if not release:
            path.unlink(missing_ok=True)
        elif self.release(link) != release:
            self.ready(link, release).rename(path)
        disk.flush(self.place)

    def ready(self, link: str, release: str) -> Path:
        """The replacement of a link, beside it. `point` then needs no inode, which a full disk may not have."""
        new = self.place / f".{link}.new"
        if self.release(new.name) != release:
            new.unlink(missing_ok=True)
            new.symlink_to(Path("../../releases") / release)
        return new

    def end_swap(self) -> None:
        """Records durably that no swap is running: a swap that has succeeded must not be undone after a power cut."""
        self.swap_file.unlink()
        disk.flush(self.place)

    def halt(self) -> None:
        """Stops the server, and any swap of its own that would start it again."""
        self.systemctl("stop", f"enginehouse-swap@{self.name}.service")
        self.stop()

    def stop(self) -> None:
        self.systemctl("stop", *self.units())

    def units(self) -> list[str]:
        return [self.unit, *([self.llm] if (places.UNITS / "llm@.service").exists() else [])]

    def has_llm(self, release: str) -> bool:
        return (places.release(release) / "llm" / "run").exists()

    def start(self, release: str) -> None:
        """Starts Triton and the LLM beside it until every model has answered. Raises DoesNotServe with its reason."""
        (self.place / "proof.json").unlink(missing_ok=True)
        self._start(release, self.unit)
        if self.has_llm(release):
            (self.place / "proof-llm.json").unlink(missing_ok=True)
            if systemd.show(self.llm, "SubState")["SubState"] == "auto-restart":
                self.systemctl("stop", self.llm)  # otherwise this start would count as a failed automatic restart
            self._start(release, self.llm)

    def _start(self, release: str, name: str) -> None:
        """Starts the unit. Raises DoesNotServe, and then no part of the server runs."""
        restarts = self.show_unit(name, "NRestarts")["NRestarts"]
        self.systemctl("reset-failed", name)
        self.systemctl("start", "--no-block", name)
        seconds = json.loads((places.release(release) / "server.json").read_text())["start_seconds"]
        until, invocation, last_status = time.monotonic() + seconds + 60, "", ""
        while time.monotonic() < until:
            unit = self.show_unit(name, "ActiveState", "SubState", "NRestarts", "InvocationID", "StatusText", "Job")
            invocation = unit["InvocationID"] or invocation
            if unit["ActiveState"] == "active":
                return
            has_ended = unit["ActiveState"] in ("failed", "inactive") or unit["SubState"] == "auto-restart"
            if (has_ended and not systemd.has_job(unit)) or unit["NRestarts"] not in (restarts, "0"):
                break
            if unit["StatusText"] != last_status:
                last_status = unit["StatusText"]
                say(f"{release}: {last_status}")
            time.sleep(0.5)
        self.stop()
        raise DoesNotServe(self.why(release, invocation, self.proof_of(name)))

    def proof_of(self, name: str) -> str:
        return "proof-llm.json" if name == self.llm else "proof.json"

    def answers(self, release: str) -> dict[str, float]:
        """Seconds that each model took for one answer at the last proof of this release; none if unknown."""
        seconds: dict[str, float] = {}
        for file in ("proof.json", *(["proof-llm.json"] if self.has_llm(release) else [])):
            with contextlib.suppress(OSError, ValueError, KeyError):
                proof = json.loads((self.place / file).read_text())
                seconds |= proof["answers"] if proof["release"] == release and proof["ok"] else {}
        return seconds

    def compared(self, release: str) -> dict[str, Any]:
        """The verdict on the LLM of a release in its comparison with the earlier release; empty without a
        comparison."""
        for file in ("proof-llm.json", "proof.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                proof = json.loads((self.place / file).read_text())
                if proof["release"] == release and proof["compared"]:
                    return {"compared": proof["compared"]}
        return {}

    def why(self, release: str, invocation: str, file: str = "proof.json") -> str:
        """The message of the proof, and the last lines of the container."""
        reason = ""
        with contextlib.suppress(OSError, ValueError):
            proof = json.loads((self.place / file).read_text())
            reason = proof["reason"] if proof["release"] == release else ""
        lines = ["journalctl", "-q", "-o", "cat", "-n", str(LAST_LINES), f"_SYSTEMD_INVOCATION_ID={invocation}"]
        log = ""
        if invocation:  # a container may print bytes that are not UTF-8
            log = subprocess.run(lines, capture_output=True, text=True, errors="replace", check=False).stdout.strip()
        last_lines = "\n".join(f"  | {line.strip()[:200]}" for line in log.splitlines() if line[:1] not in "|+")
        return f"{reason or 'its unit did not become active'}\n{last_lines}".strip()

    def systemctl(self, *arguments: str) -> None:
        systemd.systemctl(*arguments)

    def show(self, *properties: str) -> dict[str, str]:
        return systemd.show(self.unit, *properties)

    def show_unit(self, name: str, *properties: str) -> dict[str, str]:
        return self.show(*properties) if name == self.unit else systemd.show(name, *properties)

    def record(self, entry: dict[str, Any]) -> None:
        if problem := history.record(entry):
            print(problem, file=sys.stderr)

    def prune(self, keep: int) -> None:
        """Removes the server's releases that are not in use, wanted or just published, except for the newest `keep`."""
        kept, old = {self.release("current"), self.release("previous"), self.asked_for()}, []
        releases, caches = places.ROOT / "releases", places.ROOT / "cache"
        for half in [*releases.glob(".*.removing"), *caches.glob(".*.removing")]:
            shutil.rmtree(half, ignore_errors=True)
        for path in releases.iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError):
                server = json.loads((path / "server.json").read_text())["server"]
                if server == self.name and path.name not in kept and not path.name.startswith("."):
                    old.append((path.stat().st_mtime, path))
        for written, path in sorted(old, reverse=True)[keep:]:
            if time.time() - written > FRESH_SECONDS:
                disk.remove(path)  # removed as a whole: a partial release with server.json would count as complete
                disk.remove(caches / path.name)

    def asked_for(self) -> str:
        """The release of the newest request: another run may have written one during this swap."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads(self.wanted_file.read_text())["release"])
        return ""


def takes(release: str) -> set[str]:
    """The host's ports and devices that a release's containers use, by their start lines."""
    lines = [places.release(release) / name for name in ("run", "llm/run")]
    text = "".join(line.read_text() for line in lines if release and line.exists())
    return {*re.findall(r"--publish \S+:(\d+):\d+", text), *re.findall(r"--device (\S+)", text)}
