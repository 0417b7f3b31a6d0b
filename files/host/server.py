"""One Triton server's place on the host: its links and records, and its unit as systemd has it. Used by swap.py.

What every single step leaves on the disk is decided here; which steps make a swap, and in which order, is swap.py's.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
LAST_LINES = 20
FRESH_SECONDS = 6 * 3600
"""A release that was published within six hours may be another run's, whose swap is still to come."""


class Stays(Exception):
    """The wanted release does not serve; the text says why."""


class Server:
    """One server's place on the host."""

    def __init__(self, name: str) -> None:
        self.name, self.unit = name, f"triton@{name}.service"
        self.place = ROOT / "servers" / name
        self.swap_file, self.wanted_file = self.place / "swap.json", self.place / "wanted.json"

    @contextlib.contextmanager
    def locked(self, wait: bool):
        """True while this process alone may switch. The kernel gives the lock up with the process, however it ends."""
        with (self.place / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                yield True
            except BlockingIOError:
                yield False

    def release(self, link: str) -> str:
        """The release a link names; empty without one."""
        path = self.place / link
        return Path(os.readlink(path)).name if path.is_symlink() else ""

    def resolved(self, wanted: str) -> str:
        """A release id as it is; the word `previous` as what it names now."""
        return self.release("previous") if wanted == "previous" else wanted

    def has(self, release: str) -> bool:
        """Whether the release is on the host, whole."""
        return (ROOT / "releases" / release / "server.json").exists()

    def in_its_way(self, release: str, others: list[str]) -> list[Server]:
        """Those of `others` whose release takes a port or a device that `release` takes."""
        found = [Server(name) for name in others if name != self.name]
        return [each for each in found if taken(each.release("current")) & taken(release)]

    def image_of(self, release: str) -> str:
        path = ROOT / "releases" / release / "server.json"
        return json.loads(path.read_text())["image"]["pull_reference"] if path.exists() else ""

    def point(self, link: str, release: str) -> None:
        """The link names the release, replaced by rename; without a release there is no link."""
        path, new = self.place / link, self.place / f".{link}.new"
        new.unlink(missing_ok=True)
        if release:
            new.symlink_to(Path("../../releases") / release)
            new.rename(path)
        else:
            path.unlink(missing_ok=True)
        flush(self.place)

    def over(self) -> None:
        """No swap is under way, also after a power cut: one that has ended well must not be undone then."""
        self.swap_file.unlink()
        flush(self.place)

    def halt(self) -> None:
        """It does not run, and no swap of its own is under way that would start it."""
        self.systemctl("stop", f"enginehouse-swap@{self.name}.service")
        self.systemctl("stop", self.unit)

    def start(self, release: str) -> None:
        """The unit is active: every model has answered. Raises Stays with the reason and the last lines."""
        (self.place / "proof.json").unlink(missing_ok=True)
        restarts = self.show("NRestarts")["NRestarts"]
        self.systemctl("reset-failed", self.unit)
        self.systemctl("start", "--no-block", self.unit)
        seconds = json.loads((ROOT / "releases" / release / "server.json").read_text())["start_seconds"]
        until, invocation, told = time.monotonic() + seconds + 60, "", ""
        while time.monotonic() < until:
            seen = self.show("ActiveState", "SubState", "NRestarts", "InvocationID", "StatusText", "Job")
            invocation = seen["InvocationID"] or invocation
            if seen["ActiveState"] == "active":
                return
            over = seen["ActiveState"] in ("failed", "inactive") or seen["SubState"] == "auto-restart"
            if (over and seen["Job"] in ("", "0")) or seen["NRestarts"] not in (restarts, "0"):
                break
            if seen["StatusText"] != told:
                told = seen["StatusText"]
                say(f"{release}: {told}")
            time.sleep(0.5)
        self.systemctl("stop", self.unit)
        raise Stays(self.why(release, invocation))

    def why(self, release: str, invocation: str) -> str:
        """What the proof said, and the last lines of the container."""
        reason = ""
        with contextlib.suppress(OSError, ValueError):
            proof = json.loads((self.place / "proof.json").read_text())
            reason = proof["reason"] if proof["release"] == release else ""
        lines = ["journalctl", "-q", "-o", "cat", "-n", str(LAST_LINES), f"_SYSTEMD_INVOCATION_ID={invocation}"]
        log = ""
        if invocation:  # a container may print any bytes
            log = subprocess.run(lines, capture_output=True, text=True, errors="replace", check=False).stdout.strip()
        said = "\n".join(f"  | {line.strip()[:200]}" for line in log.splitlines() if line[:1] not in "|+")
        return f"{reason or 'its unit did not become active'}\n{said}".strip()

    def systemctl(self, *arguments: str) -> None:
        """Asks systemd; what becomes of it is looked at afterwards."""
        subprocess.run(["systemctl", *arguments], check=False, stderr=subprocess.DEVNULL)

    def show(self, *properties: str) -> dict[str, str]:
        """The unit's properties."""
        asked = ["systemctl", "show", "-p", ",".join(properties), self.unit]
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        found = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        return {each: found.get(each, "") for each in properties}

    def record(self, entry: dict) -> None:
        """One line of history. A full disk takes the line, and no server down."""
        try:
            with (ROOT / "history.jsonl").open("a") as history:
                history.write(json.dumps(entry) + "\n")
                history.flush()
                os.fsync(history.fileno())
        except OSError as problem:
            print(f"history.jsonl has no line of this: {problem}", file=sys.stderr)

    def prune(self, keep: int) -> None:
        """Of this server's releases that nobody serves, asks for or has just published, the newest `keep` stay."""
        kept, old = {self.release("current"), self.release("previous"), self.asked_for()}, []
        for left in [*(ROOT / "releases").glob(".*.removing"), *(ROOT / "cache").glob(".*.removing")]:
            shutil.rmtree(left, ignore_errors=True)
        for path in (ROOT / "releases").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError):
                server = json.loads((path / "server.json").read_text())["server"]
                if server == self.name and path.name not in kept and not path.name.startswith("."):
                    old.append((path.stat().st_mtime, path))
        for written, path in sorted(old, reverse=True)[keep:]:
            if time.time() - written > FRESH_SECONDS:
                remove(path)
                remove(ROOT / "cache" / path.name)

    def asked_for(self) -> str:
        """The release of the newest wish: another run may have written one while this swap was under way."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads(self.wanted_file.read_text())["release"])
        return ""


def taken(release: str) -> set[str]:
    """The host's ports and devices that a release's container takes, as its start line names them."""
    line = ROOT / "releases" / release / "run"
    text = line.read_text() if release and line.exists() else ""
    return {*re.findall(r"--publish \S+:(\d+):\d+", text), *re.findall(r"--device (\S+)", text)}


def remove(path: Path) -> None:
    """The directory is gone. Cut off, it is gone from under its name all the same, and the next prune does the rest.

    Another name first, and that on the disk: half of a release with its server.json would be taken for a whole one.
    What cannot be removed stays: the release that serves serves all the same.
    """
    gone = path.with_name(f".{path.name}.removing")
    with contextlib.suppress(OSError):
        path.rename(gone)
        flush(path.parent)
        shutil.rmtree(gone)


def write(path: Path, content: dict) -> None:
    """The file holds `content` even if the power goes now."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as handle:
        handle.write(json.dumps(content) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    new.rename(path)
    flush(path.parent)


def flush(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def say(status: str) -> None:
    """The unit's status line."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(f"STATUS={status}".encode())
