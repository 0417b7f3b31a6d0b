"""history.jsonl: a line for every change of the release that a server of this host serves."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from host import places


def now() -> str:
    return moment(time.time())


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def record(entry: dict[str, Any]) -> str:
    """Appends a line durably. Returns the problem, else empty: a full disk loses the line, but stops no server."""
    try:
        with (places.ROOT / "history.jsonl").open("a") as history:
            history.write(json.dumps(entry) + "\n")
            history.flush()
            os.fsync(history.fileno())
    except OSError as problem:
        return f"history.jsonl could not be written: {problem}"
    return ""
