"""Asks the cloud for notices of interruption, and drains the host in time; run by enginehouse-notices.service.

    host notices serve

Settings: /etc/enginehouse/notices.json and traffic.json. A notice that drains has these states, in order:

    announced    every server is held: the traffic service says drain, so balancers and gateways send nothing new
    drained      every balancer has noticed it, and has no request here; the servers still run
    cut          at `margin_seconds` before the end requests were still running: they are counted, and servers stopped
    withdrawn    the cloud no longer reports it: holds are lifted, stopped servers started

It writes ROOT/notices/state.json, ROOT/metrics/notices.prom, and a line in history.jsonl for each of these states. An
invalid answer or silence changes nothing: a notice stands until the cloud withdraws it explicitly.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from host import disk, places
from host.notices import drain
from host.notices.clouds import CLOUDS, PLACES, POLL_SECONDS, Metadata, Notice, Unread
from host.systemd import say
from host.traffic import draining
from host.traffic.state import iso
from host.traffic.state import settings as traffic_settings

TICK_SECONDS = 0.5
NEAR_SECONDS = 15.0
"""Seconds before the end in which the cloud is not asked, because a missing answer must not delay anything."""
BALANCER_SECONDS = 1
MARK = "cloud"
WRITE_SECONDS = 60.0
"""Seconds between two writes of an unchanged state."""


def main(arguments: list[str]) -> int:
    """Watches until stopped; returns exit status 64 for unknown arguments."""
    if arguments != ["serve"]:
        print("host notices serve", file=sys.stderr)
        return 64
    settings = json.loads((places.SETTINGS / "notices.json").read_text())
    watch = Watch(settings, traffic_settings())
    say(f"{settings['cloud']} is asked", is_ready=True)
    while True:
        watch.look(time.time())
        time.sleep(watch.pause_seconds)


@dataclass
class Watch:
    """The cloud's notices, and their states; kept over a restart of this program."""

    settings: dict[str, Any]
    traffic: dict[str, Any]
    notices: list[Notice] = field(default_factory=list)
    read_at: float = 0.0
    answered_at: float = 0.0
    problem: str = ""
    kept: dict[str, Any] = field(default_factory=dict)
    written: str = ""
    written_at: float = 0.0

    def __post_init__(self) -> None:
        cloud = self.settings["cloud"]
        self.metadata = Metadata(self.settings.get("metadata") or PLACES[cloud])
        self.traffic = self.traffic | {"heard_seconds": BALANCER_SECONDS}
        self.boot = drain.boot()
        empty: dict[str, Any] = {"seen": {}, "active": None, "totals": {}, "cut": 0}
        try:
            read = json.loads(self.file.read_text())
            self.kept = {name: read[name] for name in empty}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.kept = empty
        self.notices = self.remembered()

    @property
    def file(self) -> Any:
        return places.ROOT / "notices" / "state.json"

    @property
    def servers(self) -> list[str]:
        return list(self.traffic["servers"])

    @property
    def pause_seconds(self) -> float:
        return TICK_SECONDS if self.kept["active"] else POLL_SECONDS[self.settings["cloud"]]

    def look(self, now: float) -> None:
        """Asks the cloud if a check is due, and takes the next step of the drain."""
        if self.is_due(now):
            self.read(now)
        draining = [(self.end_of(notice), notice) for notice in self.notices if self.is_to_drain(notice)]
        if draining:
            self.drain(*min(draining, key=lambda pair: pair[0]), now)
        elif self.kept["active"]:
            self.withdraw()
        self.write(now)

    def is_due(self, now: float) -> bool:
        """True if it is time to ask the cloud."""
        active = self.kept["active"]
        is_near = active and now > active["ends"] - NEAR_SECONDS and now < active["ends"] + NEAR_SECONDS
        return not is_near and now - self.read_at >= POLL_SECONDS[self.settings["cloud"]]

    def read(self, now: float) -> None:
        """Reads the cloud's notices; without an answer, the notices of the last answer are kept."""
        self.read_at = now
        try:
            self.notices = CLOUDS[self.settings["cloud"]](self.metadata)
        except Unread as problem:
            if not self.problem:
                print(f"<4>the cloud gives no answer: {problem}", flush=True)
            self.problem = str(problem)
            return
        self.problem, self.answered_at = "", now
        seen = self.kept["seen"]
        self.kept["seen"] = {notice.id: seen.get(notice.id) for notice in self.notices}
        for notice in self.notices:
            if not self.kept["seen"][notice.id]:
                self.kept["seen"][notice.id] = {"at": now, "boot": self.boot}
                self.kept["totals"][notice.kind] = self.kept["totals"].get(notice.kind, 0) + 1
                when = f", which takes the host at {iso(self.end_of(notice))}" if notice.drains else ""
                self.record("announced", notice.kind, f"the cloud has announced: {notice.kind}{when}")

    def remembered(self) -> list[Notice]:
        """The notice for which an earlier start of this program drained."""
        active = self.kept["active"]
        return [Notice(active["id"], active["kind"], ends=active["ends"])] if active else []

    def end_of(self, notice: Notice) -> float:
        return float(notice.ends or self.kept["seen"][notice.id]["at"] + notice.within)

    def is_to_drain(self, notice: Notice) -> bool:
        """False for a notice from before this boot: its interruption is over, though the cloud still reports it."""
        return notice.drains and bool((self.kept["seen"].get(notice.id) or {}).get("boot") == self.boot)

    def drain(self, ends: float, notice: Notice, now: float) -> None:
        """Takes the next step: hold, record that the host is idle, or cut."""
        active = self.kept["active"]
        if not active or active["id"] != notice.id:
            active = {"id": notice.id, "kind": notice.kind, "since": now, "state": "draining", "requests": None}
            active["held"] = 0.0
            self.kept["active"] = active
        active["ends"] = ends
        if active["held"] < max(ends, now) + drain.HELD_SECONDS / 2:
            active["held"] = max(ends, now) + drain.HELD_SECONDS
            draining.hold(self.servers, active["held"], f"the cloud: {notice.kind}", MARK, now)
            self.write(now)
        if active["state"] != "draining":
            return
        flight = draining.in_flight(self.traffic)
        active["requests"] = flight.requests
        say(f"{notice.kind}: draining, requests in flight: {flight.requests}")
        if flight.is_heard and flight.requests == 0:
            active["state"] = "drained"
            self.record("drained", notice.kind, f"no request was in flight {now - active['since']:.1f} s after it")
        elif now >= ends - self.settings["margin_seconds"]:
            active["state"] = "cut"
            self.kept["cut"] += flight.requests or 0
            counted = "an unknown number of" if flight.requests is None else flight.requests
            self.record("cut", notice.kind, f"{counted} requests were still in flight, and are cut")
            drain.cut(self.traffic)

    def withdraw(self) -> None:
        """Lets the host take requests again."""
        active, self.kept["active"] = self.kept["active"], None
        draining.release(self.servers, MARK)
        if active["state"] == "cut":
            drain.start_again(self.traffic)
        self.record("withdrawn", active["kind"], "the cloud no longer announces it: the host takes requests again")

    def record(self, result: str, kind: str, reason: str) -> None:
        """Writes a line to the journal and to the history."""
        print(f"<4>{kind}: {reason}", flush=True)
        if problem := drain.record({"result": result, "notice": kind, "reason": reason}):
            print(f"<4>{problem}", flush=True)

    def write(self, now: float) -> None:
        """Writes the state file and the metrics; unchanged ones once a minute. A full disk does not stop the drain."""
        standing = sorted({notice.kind for notice in self.notices})
        kept = json.dumps(self.kept | {"cloud": self.settings["cloud"], "problem": self.problem, "standing": standing})
        if kept == self.written and now - self.written_at < WRITE_SECONDS:
            return
        record = json.loads(kept) | {"answered": self.answered_at, "written": now}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            disk.replace_durably(self.file, json.dumps(record) + "\n")
            (places.ROOT / "metrics").mkdir(exist_ok=True)
            disk.replace(places.ROOT / "metrics" / "notices.prom", metrics(record))
        except OSError as problem:
            print(f"<4>the state of notices was not written: {problem}", flush=True)
        self.written, self.written_at = kept, now


def metrics(record: dict[str, Any]) -> str:
    """The state of notices as metrics for Prometheus."""
    active = record["active"]
    rows = [
        ("active", "gauge", "1 while the cloud has announced that it takes this host.", int(active is not None)),
        (
            "ends_timestamp_seconds",
            "gauge",
            "Time at which the cloud takes the host; 0 without a notice.",
            (active or {"ends": 0})["ends"],
        ),
        (
            "cut_requests_total",
            "counter",
            "Requests that were still in flight when their servers were stopped.",
            record["cut"],
        ),
        ("answered_timestamp_seconds", "gauge", "Time of the cloud's last answer.", record["answered"]),
    ]
    lines = [
        line
        for name, kind, meaning, value in rows
        for line in (
            f"# HELP enginehouse_notice_{name} {meaning}",
            f"# TYPE enginehouse_notice_{name} {kind}",
            f"enginehouse_notice_{name} {value:.0f}",
        )
    ]
    lines += ["# HELP enginehouse_notice_standing 1 for each kind that the cloud announces now."]
    lines += ["# TYPE enginehouse_notice_standing gauge"]
    lines += [f'enginehouse_notice_standing{{kind="{kind}"}} 1' for kind in sorted(record["standing"])]
    lines += ["# HELP enginehouse_notices_total Notices by kind.", "# TYPE enginehouse_notices_total counter"]
    lines += [f'enginehouse_notices_total{{kind="{kind}"}} {count}' for kind, count in sorted(record["totals"].items())]
    return "\n".join(lines) + "\n"
