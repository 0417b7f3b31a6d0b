"""A rollout second by second: the hosts a balancer sends to, and the clients' answers.

Each event is a dictionary with `seconds` since the watch began, `sent` and `lost` of the load until then, and either
`host` and its `state` (UP, DRAIN, DOWN, MAINT; `silent` of the balancer itself), or a line of a run: `operation`.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.in_rotation import LABEL

STATE = re.compile(r"^haproxy_server_status\{[^}]*\} 1(?:\.0)?$", re.MULTILINE)
WORST = ("MAINT", "DOWN", "DRAIN", "NOLB", "UP")
OPERATION = "--> Starting operation: "
EVERY_SECONDS = 0.1
Event = dict[str, Any]


def states(exposition: str, pool: str) -> dict[str, str]:
    """Returns the state of each host of the pool at a balancer, from its exporter; the worse of the two protocols."""
    states_of: dict[str, str] = {}
    for match in STATE.finditer(exposition):
        labels = dict(LABEL.findall(match[0]))
        if labels["proxy"].rpartition("_")[0] == pool and labels["state"] in WORST:
            host = labels["server"].rpartition(".")[0]
            states_of[host] = min(states_of.get(host, "UP"), labels["state"], key=WORST.index)
    return states_of


class Timeline:
    """A watch over one balancer and one load, with ten readings a second during the `with` block."""

    def __init__(
        self, exporter: str, pool: str, counts: Callable[[], Mapping[str, int]], tell: Callable[[Event], None]
    ) -> None:
        self.exporter, self.pool, self.counts, self.tell = exporter, pool, counts, tell
        self.events: list[Event] = []
        self.now: dict[str, str] = {}
        """The last state of each host, and of the balancer itself if it is silent."""
        self._began, self._stopped = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._look_on)

    def __enter__(self) -> Timeline:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def note(self, **what: object) -> None:
        """Records an event."""
        counts = self.counts()
        seconds = round(time.monotonic() - self._began, 1)
        self.events.append({"seconds": seconds, **what, "sent": sum(counts.values()), "lost": counts["lost"]})
        self.tell(self.events[-1])

    def heard(self, line: str) -> None:
        """Records a line of a run."""
        if line.startswith(OPERATION):
            self.note(operation=line.removeprefix(OPERATION).split(" {")[0].strip())

    def seen(self, host: str) -> list[str]:
        """Returns the states that the host has had, in order."""
        return [event["state"] for event in self.events if event.get("host") == host]

    def least_in(self) -> int:
        """Returns the least number of hosts that the balancer sent to, while it answered."""
        up, least = dict[str, str](), len(self.now)
        for event in self.events:
            if "state" in event:
                up[event["host"]] = event["state"]
                known = {host: state for host, state in up.items() if host != "balancer"}
                if len(known) == len([host for host in self.now if host != "balancer"]):
                    least = min(least, sum(state == "UP" for state in known.values()))
        return least

    def seconds_out(self) -> dict[str, float]:
        """Returns seconds without requests for each host that was out and is back, in total."""
        out, since = dict[str, float](), dict[str, float]()
        for event in self.events:
            host, state = event.get("host", "balancer"), event.get("state")
            if host == "balancer":
                continue
            if state != "UP":
                since.setdefault(host, event["seconds"])
            elif host in since:
                out[host] = round(out.get(host, 0.0) + event["seconds"] - since.pop(host), 1)
        return out

    def _look_on(self) -> None:
        while not self._stopped.wait(EVERY_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            with urllib.request.urlopen(self.exporter, timeout=5) as answer:
                now = states(answer.read().decode(), self.pool) | {"balancer": "answers"}
        except OSError:
            now = {"balancer": "silent"}
        for host, state in now.items():
            if self.now.get(host) != state:
                self.now[host] = state
                self.note(host=host, state=state)
