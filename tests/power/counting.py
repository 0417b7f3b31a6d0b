"""Counts requests like a gateway process, without a pause: python3 -m counting FOLDER NAME

It runs on the machine, with the gateway's own `usage.py` beside it and the standard library alone. `begun N` is the
number of ended requests, `counted N` the number in the counters when their file was on the disk. Each hundred requests
have their own key, so a double count appears as a key with more.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

from gateway.usage import Usage

AT_ONCE = 100
"""Requests of a key."""
COUNT_SECONDS = 1.0
"""Interval of the gateway's writes."""


def main(folder: str, name: str) -> None:
    """Runs until the power cut."""
    usage, ended, due = Usage(folder), 0, time.monotonic()
    usage.days = 30
    while True:
        for _ in range(AT_ONCE):
            usage.add(time.time(), f"{name}-{ended // AT_ONCE}", "acme", "llama", False, (30, 10, 5), 0.1)
            ended += 1
        print("begun", ended, flush=True)
        if time.monotonic() >= due:
            usage.count(datetime.now(UTC))
            print("counted", ended, flush=True)
            due = time.monotonic() + COUNT_SECONDS


if __name__ == "__main__":
    main(*sys.argv[1:])
