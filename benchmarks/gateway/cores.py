"""Assigns a core to each process of the gateway's benchmark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

WANTED = {"gateway": 2, "server": 2, "client": 3, "peer": 1}
"""Number of concurrent processes of each kind, each of which needs a core."""
TOPOLOGY = Path("/sys/devices/system/cpu")


def shares(cores: Sequence[int], wanted: Mapping[str, int] = WANTED) -> dict[str, list[int]]:
    """Returns one core for each process by kind; empty for too few cores, which all processes then share."""
    if len(cores) < sum(wanted.values()):
        return {}
    left = iter(cores)
    return {kind: [next(left) for _ in range(count)] for kind, count in wanted.items()}


def usable(topology: Path = TOPOLOGY) -> list[int]:
    """Returns the cores that this process may run on, a thread of each physical core before the second threads."""
    cores = sorted(os.sched_getaffinity(0))
    return sorted(cores, key=lambda core: (_place_among_siblings(topology, core), core))


def _place_among_siblings(topology: Path, core: int) -> int:
    """Returns 0 for the first thread of a physical core."""
    try:
        siblings = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return 0
    threads: list[int] = []
    for part in siblings.strip().split(","):
        first, _, last = part.partition("-")
        threads += range(int(first), int(last or first) + 1)
    return threads.index(core)
