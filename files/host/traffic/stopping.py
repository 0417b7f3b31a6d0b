"""The wait before a server stops: until no balancer sends to it or has a request there."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

from host.systemd import say
from host.traffic.state import cut_file, settings, stops_file

SCRAPE_SECONDS = 0.25
MOST_BYTES = 2**25
"""Bytes of a balancer's page; a line of a server has some 100."""
GONE = {"DRAIN", "MAINT", "DOWN"}
"""HAProxy's state, in its exporter, of a server without new requests."""


def drained(server: str) -> int:
    """0: every balancer of this host knows that the server stops, and has no open request there.

    Also 0 after the time limit: requests that are still open then have Triton's own time limit. Without our balancers
    it does not wait. It never fails, so that the stop always happens.
    """
    try:
        mark(server)
    except OSError as problem:  # the service notices the stop a few seconds later, at its next query of systemd
        print(f"<4>{server} could not announce its stop: {problem}", flush=True)
    try:
        wanted = settings()
        seen_as = wanted["servers"][server]["seen_as"]
    except (OSError, ValueError, KeyError) as problem:
        print(f"<4>{server} stops without a drain: {problem!r}", flush=True)
        return 0
    if cut_file().exists():
        print(f"<4>{server} stops without a drain: its cloud takes the host back", flush=True)
    elif wanted["balancers"] and seen_as:
        waits = [Wait(balancer, seen_as, wanted) for balancer in wanted["balancers"]]
        with ThreadPoolExecutor(len(waits)) as threads:
            for sentence in threads.map(Wait.ended, waits):
                print(sentence, flush=True)
    return 0


def mark(server: str) -> None:
    """Marks the current invocation as stopping. Readable by all, because the service does not run as root."""
    file = stops_file(server)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.chmod(0o755)
    new = file.with_name(f".{file.name}.new")
    new.write_text(os.environ.get("INVOCATION_ID", "-"))
    new.chmod(0o644)
    new.rename(file)


class Wait:
    """The wait for one balancer."""

    def __init__(self, balancer: dict[str, str], seen_as: list[str], wanted: dict[str, Any]) -> None:
        self.name, self.address = balancer["name"], f"{balancer['metrics']}?scope=server"
        self.lines = [(proxy, server) for proxy, _, server in (line.partition("/") for line in seen_as)]
        self.drain_seconds, self.heard_seconds = wanted["drain_seconds"], wanted["heard_seconds"]

    def ended(self) -> str:
        """A sentence for the journal about the end of the wait."""
        began = answered_at = time.monotonic()
        heard, sessions, problem = 0.0, 0, "it was not queried"
        while (now := time.monotonic()) - began < self.drain_seconds:
            try:
                state, sessions = self.scraped()
                answered_at = now
                if not heard and state <= GONE:
                    heard = now
                if heard and not sessions:
                    return f"{self.name} heard it after {heard - began:.1f} s, and was idle after {now - began:.1f} s"
                say(f"draining: requests in flight from {self.name}: {sessions}")
            except (OSError, HTTPException, ValueError, LookupError) as error:
                problem = str(error)
                if time.monotonic() - answered_at >= self.heard_seconds:
                    return f"<4>{self.name} cannot be asked for {self.heard_seconds} s, so it is ignored: {problem}"
            time.sleep(SCRAPE_SECONDS)
        what = f"still has requests in flight here ({sessions})" if heard else "has not heard that this server stops"
        return f"<4>{self.name} {what} after {self.drain_seconds} s"

    def scraped(self) -> tuple[set[str], int]:
        """The states of this server's lines at the balancer, and its requests there. Raises if a line is missing."""
        states, sessions = lines_at(self.address, self.heard_seconds)
        for line in self.lines:
            if line not in states or line not in sessions:
                raise LookupError(f"it reports nothing about {'/'.join(line)}")
        return {states[line] for line in self.lines}, sum(sessions[line] for line in self.lines)


Line = tuple[str, str]
"""A server of a backend at a balancer, as (backend, server)."""


def lines_at(address: str, seconds: float) -> tuple[dict[Line, str], dict[Line, int]]:
    """State and open requests of every line of a balancer, by its exporter. Raises OSError or ValueError."""
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # balancers are reached without a proxy
    with plain.open(address, timeout=seconds) as answer:
        content = answer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"its page has more than {MOST_BYTES} bytes")
    text = content.decode()
    states, sessions = dict[Line, str](), dict[Line, int]()
    for metric, labels, value in re.findall(r"(?m)^haproxy_server_(\w+)\{(.*)\} (\S+)", text):
        label_values = dict(re.findall(r'\b(\w{1,64})="([^"]*)"', labels))
        line = (label_values.get("proxy", ""), label_values.get("server", ""))
        if metric == "status" and float(value) == 1:
            states[line] = label_values.get("state", "")
        if metric == "current_sessions":
            sessions[line] = int(float(value))
    return states, sessions
