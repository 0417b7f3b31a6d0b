"""Counts requests like a gateway process, without a pause: python3 -m counting FOLDER NAME

It runs on the machine, with the gateway's own `usage.py` beside it and the standard library alone. `begun N` is the
number of ended requests, `synced N` the number of which a finished sync of the log had the lines. Each hundred requests
have their own key, so a double count appears as a key with more than a hundred.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gateway.usage import Usage

AT_ONCE = 100
"""Requests of a key."""
COUNT_SECONDS = 1.0
"""Interval of the gateway's writes."""


def reported(sync: Callable[[int], None], requests: Callable[[], int]) -> Callable[[int], None]:
    """Returns the sync; it prints the requests that ended before it began."""

    def synced(handle: int) -> None:
        before = requests()
        sync(handle)
        write("synced", before)

    return synced


def write(word: str, number: int) -> None:
    """Prints a line in one piece, because two threads print."""
    sys.stdout.write(f"{word} {number}\n")
    sys.stdout.flush()


def main(folder: str, name: str) -> None:
    """Runs until the power cut."""
    usage, ended, due = Usage(folder), 0, time.monotonic()
    usage.days = 30
    os.fdatasync = reported(os.fdatasync, lambda: ended)
    while True:
        for _ in range(AT_ONCE):
            usage.add(time.time(), f"{name}-{ended // AT_ONCE}", "acme", "llama", False, (30, 10, 5), 0.1)
            ended += 1
        write("begun", ended)
        if time.monotonic() >= due:
            usage.count(datetime.now(UTC))
            due = time.monotonic() + COUNT_SECONDS


if __name__ == "__main__":
    main(*sys.argv[1:])
