"""The calendar of a process: every module asks it for the day, so that a test can stop the time."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> datetime:
    return datetime.now(timezone.utc)
