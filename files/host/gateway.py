"""Brings the gateway's processes to unit and settings, one after the other, and waits for each to answer.

    host gateway differs     prints each action of `follow` on a line; nothing if every process matches the files
    host gateway follow      acts: starts, restarts, waits for answers, stops superfluous processes
    host gateway restore     restores the settings of the releases that serve again, and follows
    host gateway usage DAY   prints the usage since that day that the processes of this host counted, as JSON

A running process has the mark of its unit in its environment, so an interrupted run leaves no unknown state. It rereads
models and keys by itself; `follow` waits until it offers the models of the settings.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from host import offered as kept_settings
from host import places
from host.systemd import active_states, show, systemctl

TEMPLATE = "enginehouse-gateway@.service"
MARK = "ENGINEHOUSE_GATEWAY="
ANSWER_SECONDS = 60
"""Seconds for a running process to reread its settings; weights on a slow disk take seconds."""
STEP_SECONDS = 0.2
USAGE = Path(os.environ.get("ENGINEHOUSE_USAGE", "/var/lib/enginehouse-gateway"))
"""StateDirectory of the unit."""
LOOK_SECONDS = 5
MOST_BYTES = 2**24
PROC = Path(os.environ.get("ENGINEHOUSE_PROC", "/proc"))


class Wanted(NamedTuple):
    """The gateway's settings and unit, read from the host's files."""

    mark: str
    address: str
    ports: tuple[int, ...]
    models: frozenset[str]
    unit: str


class GatewayError(Exception):
    """A difference from the files that remains after every step."""


def main(arguments: list[str]) -> int:
    """0 on success; 1 if a process did not come up; 64 for unknown arguments."""
    if len(arguments) == 2 and arguments[0] == "usage":
        return usage(arguments[1])
    verbs: dict[str, Callable[[], Iterable[str]]] = {"differs": differs, "follow": follow, "restore": restore}
    if len(arguments) != 1 or arguments[0] not in verbs:
        print(f"host gateway {' | '.join(verbs)} | usage DAY", file=sys.stderr)
        return 64
    try:
        for sentence in verbs[arguments[0]]():
            print(sentence, flush=True)
    except (OSError, ValueError, KeyError, GatewayError) as problem:
        print(f"gateway: {problem}", file=sys.stderr)
        return 1
    return 0


def usage(since: str) -> int:
    """Exit status of the gateway's own program, which reads its counters; 1 on a host without a gateway."""
    try:
        unit = (places.UNITS / TEMPLATE).read_text("utf-8")
    except OSError as problem:
        print(f"gateway: {problem}", file=sys.stderr)
        return 1
    folder = re.search(r"^WorkingDirectory=(\S+)$", unit, re.M)
    words = [sys.executable, "-B", "-s", "-m", "gateway", "usage", str(USAGE), since]
    return subprocess.run(words, cwd=folder[1] if folder else None, check=False).returncode


def wanted() -> Wanted:
    """Mark, ports and models of each process, from its unit and settings."""
    unit = (places.UNITS / TEMPLATE).read_text("utf-8")
    settings: dict[str, Any] = json.loads((places.SETTINGS / "gateway" / "settings.json").read_text("utf-8"))
    mark_line = re.search(rf"^Environment={MARK}(\S+)$", unit, re.M)
    listen = settings["listen"]
    models = frozenset(settings["models"])
    return Wanted(mark_line[1] if mark_line else "", listen["address"], tuple(listen["ports"]), models, unit)


def differs() -> Iterator[str]:
    """A sentence for each difference from the files."""
    if not (places.UNITS / TEMPLATE).exists():
        yield "start"
        return
    files = wanted()
    yield from (f"goes: {name}" for name in spare_units(files))
    for number, port in enumerate(files.ports):
        name = unit_name(number)
        if not starts_at_boot(name) or not runs(name, files.mark):
            yield f"starts: {name}"
        elif offered(files.address, port) != files.models:
            yield f"offers other models: {name}"
    yield from (f"goes: {path}" for path in spare_folders(files))


def follow() -> Iterator[str]:
    """A sentence for each difference that was removed."""
    files = wanted()
    for name in spare_units(files):
        systemctl("disable", "--now", name)
        yield f"gone: {name}"
    for number, port in enumerate(files.ports):
        name = unit_name(number)
        if not starts_at_boot(name):
            systemctl("enable", name)
        if not runs(name, files.mark):
            systemctl("reset-failed", name)
            if systemctl("restart", name):
                raise GatewayError(f"{name} does not start\n{journal(name)}")
            yield f"started: {name}"
        hear(name, files, port)
    for path in spare_folders(files):
        shutil.rmtree(path)
        yield f"gone: {path}"


def restore() -> Iterator[str]:
    """A sentence for each setting that was restored to its value in the current releases."""
    yield from kept_settings.restore()
    yield from follow()


def hear(name: str, files: Wanted, port: int) -> None:
    """Waits until the process offers the models of its settings. Raises: GatewayError if it does not in time."""
    end = time.monotonic() + ANSWER_SECONDS
    while (models := offered(files.address, port)) != files.models:
        if time.monotonic() >= end:
            state = "does not answer" if models is None else f"offers {', '.join(sorted(models)) or 'nothing'}"
            raise GatewayError(f"{name} {state} on port {port} after {ANSWER_SECONDS} s\n{journal(name)}")
        time.sleep(STEP_SECONDS)


def offered(address: str, port: int) -> frozenset[str] | None:
    """The models that a process offers, ready or not; None if it does not answer."""
    line = http.client.HTTPConnection(address, port, timeout=LOOK_SECONDS)
    try:
        line.request("GET", "/health")
        return frozenset(json.loads(line.getresponse().read(MOST_BYTES))["models"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException, RecursionError):
        return None
    finally:
        line.close()


def unit_name(number: int) -> str:
    return TEMPLATE.replace("@", f"@{number}")


def starts_at_boot(name: str) -> bool:
    return (places.UNITS / "multi-user.target.wants" / name).is_symlink()


def runs(name: str, mark: str) -> bool:
    """True if the unit's process runs and began with this mark."""
    if active_states(name)[0] != "active":
        return False
    try:
        began = (PROC / show(name, "MainPID")["MainPID"] / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}{mark}".encode() in began.split(b"\0")


def spare_units(files: Wanted) -> list[str]:
    """Units of ports that the settings no longer have."""
    enabled = {path.name for path in (places.UNITS / "multi-user.target.wants").glob(TEMPLATE.replace("@", "@*"))}
    kept = {unit_name(number) for number in range(len(files.ports))}
    return sorted((loaded() | enabled) - kept)


def loaded() -> set[str]:
    """Units of processes that systemd knows."""
    command = ["systemctl", "list-units", "--all", "--plain", "--no-legend", TEMPLATE.replace("@", "@*")]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return {line.split()[0] for line in listed if line.strip()}


def spare_folders(files: Wanted) -> list[Path]:
    """Environments and versions of the programs that the unit does not use."""
    folders = (places.PROGRAMS / "gateway" / kind for kind in ("environments", "versions"))
    paths = (path for folder in folders for path in folder.glob("*"))
    return sorted(path for path in paths if not re.search(rf"/{re.escape(path.name)}[/\s]", files.unit))


def journal(name: str) -> str:
    """The unit's last messages."""
    command = ["journalctl", "-q", "-o", "cat", "-n", "12", "-u", name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
