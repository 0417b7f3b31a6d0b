"""The state of a server that balancers see, and the files that it depends on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from host import places


def settings() -> dict[str, Any]:
    return dict(json.loads((places.SETTINGS / "traffic.json").read_text()))


@dataclass(frozen=True)
class Unit:
    """A server's unit in systemd's last answer; `changed` is the time of its last change, in seconds of the epoch."""

    active: bool
    invocation: str
    changed: float


@dataclass(frozen=True)
class Hold:
    """An operator's own drain; both times in seconds of the epoch."""

    since: float
    until: float


@dataclass(frozen=True)
class State:
    """The state of a server. `until` is known for an operator's drain only."""

    ready: bool
    since: float
    until: float | None = None

    def to_json(self, models: list[str]) -> dict[str, Any]:
        """The answer of `GET /ready`."""
        until = None if self.until is None else iso(self.until)
        return {"state": self.word, "since": iso(self.since), "until": until, "models": models}

    @property
    def word(self) -> str:
        return "ready" if self.ready else "drain"


def state_of(unit: Unit | None, stops: tuple[str, float], held: Hold | None, now: float) -> State:
    """The state of a server. `stops`: the invocation that began to stop, and the time; `unit` is None if never seen."""
    if unit is None:
        return State(False, now)
    if held and now < held.until:
        return State(False, held.since, held.until)
    if unit.active and unit.invocation == stops[0]:
        return State(False, stops[1])
    return State(unit.active, max(unit.changed, held.until) if held and unit.active else unit.changed)


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def stops_file(server: str) -> Path:
    """Path of the file with the invocation of the server's unit that has begun to stop."""
    return places.RUNTIME / "traffic" / f"{server}.stops"


def hold_file(server: str) -> Path:
    return places.ROOT / "traffic" / f"{server}.json"


def cut_file() -> Path:
    """Path of a file that exists from the stop of servers for the cloud's notice until the next boot."""
    return places.RUNTIME / "notices" / "cut"


def stops_of(server: str) -> tuple[str, float]:
    try:
        with stops_file(server).open() as file:
            return file.read().strip(), os.fstat(file.fileno()).st_mtime
    except OSError:
        return "-", 0.0


def hold_of(server: str) -> Hold | None:
    try:
        record = json.loads(hold_file(server).read_text())
        return Hold(float(record["since"]), float(record["until"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
