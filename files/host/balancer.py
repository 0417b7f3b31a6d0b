"""Brings a running HAProxy to its configuration file, without a reload if possible.

    host balancer differs     prints each action of `follow` on a line; nothing if the process matches the file
    host balancer follow      acts: starts, reloads, adds and removes servers, adds and removes keys
    host balancer keys        only adds and removes keys
    host balancer remember    records which servers are ready or drained, for the process after a reload

Servers and keys are added and removed over the runtime API; open requests of a revoked key are aborted. All other
changes need a reload, which costs some clients a connection. A process reports the configuration that it was loaded
with (`description`), so an interrupted run leaves no unknown state. A server is drained before it is removed.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from host import disk, places
from host.haproxy import ANSWER_SECONDS, HaproxyError, answer_to, apply, end, of_every_worker
from host.systemd import active_states, say, systemctl

UNIT = "enginehouse-balancer.service"
HAPROXY = "/usr/sbin/haproxy"
RUNS = ("active", "activating", "reloading")
LEAVE_SECONDS = 60
"""Seconds a removed server gets to finish its open requests."""
RELOAD_SECONDS = 30
STEP_SECONDS = 0.2
ENTRIES = 100
"""Keys per command; HAProxy limits a command to 16 KiB."""


class Line(NamedTuple):
    """A server's line: its place `BACKEND/NAME`, its id in HAProxy, and the arguments that create it."""

    place: str
    reached: tuple[str, ...]
    """Address, port, port of its checks, address and port of its agent."""
    words: tuple[str, ...] = ()


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 1 HAProxy failed, 64 wrong arguments."""
    verbs: dict[str, Callable[[], Iterable[str]]] = {
        "differs": differs,
        "follow": follow,
        "keys": keys,
        "remember": remember,
    }
    if len(arguments) != 1 or arguments[0] not in verbs:
        print(f"host balancer {' | '.join(verbs)}", file=sys.stderr)
        return 64
    try:
        for sentence in verbs[arguments[0]]():
            print(sentence, flush=True)
    except (OSError, HaproxyError) as problem:
        print(f"HAProxy: {problem}", file=sys.stderr)
        return 1
    return 0


def file() -> Path:
    return places.SETTINGS / "balancer" / "haproxy.cfg"


def differs() -> Iterator[str]:
    """A sentence for each difference between the running process and its file."""
    if active_states(UNIT)[0] not in RUNS:
        yield "start"
        return
    text = file().read_text()
    if why := outdated(text):
        yield f"reload: {why}"
        return
    leaving, joining = compared(text)
    yield from (f"remove server: {line.place}" for line in leaving)
    yield from (f"add server: {line.place}" for line in joining)
    yield from (f"changed keys: {path.name}" for path in maps_of(text) if entries(path) != entries_running(path))
    workers = of_every_worker()
    yield from (
        f"requests whose key has expired or lost its right: {path.name}"
        for path in maps_of(text)
        if any(without_right(path, worker) for worker in workers)
    )
    yield from (f"remove: {path.name}" for path in spare(text))


def follow() -> Iterator[str]:
    """A sentence for each change that brings the running process to its file."""
    text = file().read_text()
    if active_states(UNIT)[0] not in RUNS:
        systemctl("reset-failed", UNIT)
        started(systemctl("restart", UNIT))
        yield "started"
    elif why := outdated(text):
        started(systemctl("reload", UNIT))
        yield f"reloaded: {why}"
    until(lambda: not outdated(text), RELOAD_SECONDS, "the running configuration is not that of the file")
    yield from lined_up(text)
    yield from keys()
    for path in spare(text):
        path.unlink()
        yield f"removed: {path.name}"


def started(status: int) -> None:
    """Confirms a start or reload by its exit status. Raises: HaproxyError with the unit's last messages on failure."""
    if status:
        command = ["journalctl", "-q", "-o", "cat", "-n", "12", "-u", UNIT]
        words = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        raise HaproxyError(f"{UNIT} does not start\n{words}")


def lined_up(text: str) -> Iterator[str]:
    """A sentence for each removed or added server; servers to remove are drained together."""
    leaving, joining = compared(text)
    for line in leaving:
        apply(f"disable agent {line.place}")
        apply(f"set server {line.place} state drain")
    began = time.monotonic()
    while (busy := sum(sessions(line.place) for line in leaving)) and time.monotonic() - began < LEAVE_SECONDS:
        say(f"{busy} requests on servers that are being removed")
        time.sleep(STEP_SECONDS)
    for line in leaving:
        apply(f"set server {line.place} state maint")
        apply(f"shutdown sessions server {line.place}")
        until(partial(deleted, line.place), ANSWER_SECONDS, f"{line.place} could not be removed")
        yield f"server removed: {line.place}"
    for line in joining:
        # HAProxy needs a backslash before a line break within a word; otherwise the command would end there.
        words = " ".join(line.words).replace("\\n", "\\\n")
        answer = answer_to(f"add server {line.place} {words}")
        if "registered" not in answer:
            raise HaproxyError(answer)
        # An agent's `ready` does not imply `up`, which HAProxy assumes only for lines of its file.
        for command in ("enable health {}", "enable agent {}", "set server {} agent up"):
            apply(command.format(line.place))
        yield f"server added: {line.place}"


def keys() -> Iterator[str]:
    """A sentence for each reread file of keys, and for requests aborted because their key lost its right.

    A file that the process does not know is read at the next reload.
    """
    for path in maps_of(file().read_text()) if active_states(UNIT)[0] in RUNS else ():
        yield from read_anew(path)
        if ended := sum(end(worker, without_right(path, worker)) for worker in of_every_worker()):
            yield f"requests ended whose key lost its right: {ended}"


def read_anew(path: Path) -> Iterator[str]:
    """A sentence if the process had other keys than the file; afterwards it has the same."""
    wanted, running = entries(path), entries_running(path)
    if running is not None and wanted != running:
        version = answer_to(f"prepare map {path}").rpartition(":")[2].strip()
        for begin in range(0, len(wanted), ENTRIES):
            rows = [f"{key} {value}" for key, value in list(wanted.items())[begin : begin + ENTRIES]]
            apply(f"add map @{version} {path} <<\n" + "\n".join(rows) + "\n")
        apply(f"commit map @{version} {path}")  # atomic: every request sees either all old keys or all new ones
        if entries_running(path) != wanted:
            raise HaproxyError(f"the process has other keys than {path}")
        yield f"keys updated: {path.name}"


def without_right(path: Path, worker: Callable[[str], str]) -> set[str]:
    """Numbers of a process's open requests, in this file's pool, for which no key of the file has a right."""
    table = path.stem.removeprefix("keys-") + "_h2"
    under_way = re.findall(r"key=([0-9a-f]{64})\.(\d+)(\.stream)? use=[1-9]", worker(f"show table {table}"))
    rights = entries(path) if under_way else {}
    return {number for key, number, streams in under_way if not covers(rights.get(key, ""), bool(streams))}


def covers(rights: str, streams: bool) -> bool:
    """True if a key with these rights may have a request; a stream needs a key without limits and expiry."""
    *limits, may = rights.split(":")
    return may == "yes" and not (streams and any(limit != "0" for limit in limits))


def maps_of(text: str) -> list[Path]:
    return [Path(name) for name in dict.fromkeys(re.findall(r"map_str\(([^)]+)\)", text))]


def entries(path: Path) -> dict[str, str]:
    return dict(row.split(" ", 1) for row in path.read_text().splitlines() if row[:1] != "#")


def entries_running(path: Path) -> dict[str, str] | None:
    """The values in the running process, by hash; None if it does not know the file."""
    rows = answer_to(f"show map {path}").splitlines()
    if any(row.startswith("Unknown") for row in rows):
        return None
    return {row.split()[1]: row.split(" ", 2)[2] for row in rows if len(row.split(" ", 2)) == 3}


def deleted(place: str) -> bool:
    """True once HAProxy no longer has the server; its connections may still be closing."""
    return "deleted" in answer_to(f"del server {place}")


def remember() -> Iterator[str]:
    """Saves the servers' states for the next process; without an answer the next one starts without states."""
    try:
        state = answer_to("show servers state")
    except OSError:
        state = "1\n"
    disk.replace(places.RUNTIME / "balancer" / "state", state)
    yield from ()


def outdated(text: str) -> str:
    """The reason to reload the process; empty if this file and this program loaded it."""
    info = dict(line.split(": ", 1) for line in answer_to("show info").splitlines() if ": " in line)
    wanted = re.search(r"(?m)^\s+description (.+)$", text)
    if not wanted or info.get("description", "") != wanted[1]:
        return "another configuration"
    version = re.search(r"version (\S+)", run(HAPROXY, "-v"))
    return f"HAProxy {version[1]}" if version and version[1] != info.get("Version") else ""


def compared(text: str) -> tuple[list[Line], list[Line]]:
    """Servers that only the process has, or with another address; and servers that only the file has."""
    wanted, running = list(lines_of(text)), list(lines_running())
    known, new = {line[:2] for line in running}, {line[:2] for line in wanted}
    return [line for line in running if line[:2] not in new], [line for line in wanted if line[:2] not in known]


def lines_of(text: str) -> Iterator[Line]:
    """The lines of hosts' servers in a configuration, recognised by their agents."""
    backend = ""
    for row in text.splitlines():
        words = shlex.split(row, comments=True)
        if words[:1] == ["backend"]:
            backend = words[1]
        elif words[:1] == ["server"] and "agent-port" in words:
            yield Line(f"{backend}/{words[1]}", reached(words[2], words[3:]), tuple(words[2:]))


def reached(address: str, words: list[str]) -> tuple[str, ...]:
    """The host, ports and agent address in a `server` line of HAProxy."""
    host, _, port = address.rpartition(":")
    value = {name: words[words.index(name) + 1] for name in ("port", "agent-addr", "agent-port")}
    return host.strip("[]"), port, value["port"], value["agent-addr"], value["agent-port"]


def lines_running() -> Iterator[Line]:
    """The servers of hosts in the running process."""
    rows = answer_to("show servers state").splitlines()
    names = next((row.lstrip("# ").split() for row in rows if row.startswith("#")), [])
    for row in rows:
        columns = dict(zip(names, row.split(), strict=False))
        if not row.startswith("#") and columns.get("srv_agent_port", "0") != "0":
            where = ("srv_addr", "srv_port", "srv_check_port", "srv_agent_addr", "srv_agent_port")
            yield Line(f"{columns['be_name']}/{columns['srv_name']}", tuple(columns[name] for name in where))


def sessions(place: str) -> int:
    """Number of open requests of a server."""
    rows = [row.split(",") for row in answer_to("show stat").splitlines()]
    at = {name: number for number, name in enumerate(rows[0])}
    rows_of_place = (row for row in rows[1:] if len(row) > 4 and f"{row[0]}/{row[1]}" == place)
    return sum(int(row[at["scur"]] or 0) for row in rows_of_place)


def spare(text: str) -> list[Path]:
    """Certificates and keys that the file no longer names."""
    paths = (path for pattern in ("tls-*", "keys-*.map") for path in file().parent.glob(pattern))
    return [path for path in sorted(paths) if path.name.removesuffix(".key") not in text]


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def until(holds: Callable[[], bool], seconds: float, problem: str) -> None:
    """Waits until `holds` is true. Raises: HaproxyError after `seconds`."""
    last = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except OSError:  # during a reload the old and the new process share the path of the socket
            pass
        if time.monotonic() >= last:
            raise HaproxyError(problem)
        time.sleep(STEP_SECONDS)
