"""Compares an LLM that starts inside a swap with its predecessor, while no client reaches it.

replay.json beside `current` has the predecessor's answers (`recording`), for the release of this swap only. The file
exists until the swap ends, and only root can read the file: prompts and answers are the operator's.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from host import comparison, replies
from host.systemd import say

FILE = "replay.json"


def compare(place: Path, model: str, engine: replies.Engine, dialect: replies.Dialect, until: float) -> dict[str, Any]:
    """The verdict on this model; empty if no swap of this release needs one. Raises replies.Unanswered."""
    record = pending(place, model)
    if not record:
        return {}
    now = replies.measure(engine, dialect, record["replay"], until)
    compared = comparison.verdict(record["replay"], record["before"], now)
    say(comparison.sentence(compared), also_print=True)
    return compared


def pending(place: Path, model: str) -> dict[str, Any]:
    """The record of the earlier LLM's answers during a swap to the current release; else empty."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        release = (place / "current").resolve().name
        swap, record = (json.loads((place / name).read_text()) for name in ("swap.json", FILE))
        if swap["to"] == record["release"] == release and record["replay"]["model"] == model:
            return dict(record)
    return {}


def refusal(compared: dict[str, Any]) -> str:
    """The verdict's reason against the release; empty without one."""
    if not compared or compared["is_good"]:
        return ""
    return "\n".join(["its answers differ from its predecessor's", comparison.sentence(compared), *compared["details"]])
