"""Watches the number of hosts of a pool that HAProxy sends requests to, by its own Prometheus exporter."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

STATUS = re.compile(r'^haproxy_server_status\{([^}]*)state="UP"([^}]*)\} 1(?:\.0)?$', re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
PROTOCOLS = ("http", "grpc")
EVERY_SECONDS = 0.25


@dataclass
class Rotation:
    """The least number of active hosts by pool, over all balancers, both backends and all readings."""

    least: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    silent: int = 0
    """Number of readings without an answer of a balancer."""

    def add(self, hosts_in: dict[str, int]) -> None:
        """Adds a reading of one balancer."""
        self.looks += 1
        self.least = {pool: min(count, self.least.get(pool, count)) for pool, count in hosts_in.items()}


def hosts_in(exposition: str, pools: Sequence[str]) -> dict[str, int]:
    """Returns the servers that are up in both backends of each pool, from the exporter's text; 0 for a pool that the
    text does not name."""
    up: dict[str, set[str]] = defaultdict(set)
    for match in STATUS.finditer(exposition):
        labels = dict(LABEL.findall(match[0]))
        up[labels["proxy"]].add(labels["server"])
    return {pool: len(set.intersection(*(up[f"{pool}_{name}"] for name in PROTOCOLS))) for pool in pools}


@contextlib.contextmanager
def watched(exporters: Sequence[str], pools: Sequence[str]) -> Iterator[Rotation]:
    """Reads the exporters at these URLs four times a second until the end of the block."""
    rotation, ended = Rotation(), threading.Event()

    def look() -> None:
        while not ended.is_set():
            began = time.monotonic()
            for exporter in exporters:
                try:
                    with urllib.request.urlopen(exporter, timeout=5) as answer:
                        rotation.add(hosts_in(answer.read().decode(), pools))
                except OSError:
                    rotation.silent += 1
            ended.wait(max(0.0, began + EVERY_SECONDS - time.monotonic()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield rotation
    finally:
        ended.set()
        thread.join()
