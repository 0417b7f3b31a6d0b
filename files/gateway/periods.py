"""Tokens of each key in the current day and month (UTC), in memory: a request asks no file.

The sums are those of the host's counters (usage.py), which all its processes write and which outlive a restart. On top
comes what this process has added since it last read them. Another process' tokens are seen within two seconds.
While sums are read, a request that ends just then may count twice, for a second: a budget is never exceeded by it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

Totals = dict[str, Counter[str]]
"""Tokens by day, as 2026-11-26, and by the public beginning of a key."""


class Periods:
    """The sums of a process. Requests add in the event loop; a thread reads the counters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Totals = {}
        self._fresh: Totals = {}
        self._departing: Totals = {}
        """Tokens that are on their way to the counters."""
        self._month = ""

    def add(self, day: str, key: str, tokens: int) -> None:
        """The key used so many tokens more."""
        with self._lock:
            self._fresh.setdefault(day, Counter())[key] += tokens

    def used(self, key: str, now: datetime) -> tuple[int, int]:
        """Tokens of the key today, and this month."""
        today = f"{now:%Y-%m-%d}"
        with self._lock:
            parts = (self._counted, self._departing, self._fresh)
            of_day = sum(part[today][key] for part in parts if today in part)
            month = today[:7]
            of_month = sum(keys[key] for part in parts for day, keys in part.items() if day[:7] == month)
        return of_day, of_month

    def depart(self, now: datetime) -> None:
        """All that was added until now is about to be written into the counters; days before this month are over."""
        with self._lock:
            for day, keys in self._fresh.items():
                self._departing.setdefault(day, Counter()).update(keys)
            self._fresh = {}
            self._departing = {day: keys for day, keys in self._departing.items() if day >= f"{now:%Y-%m}-01"}

    def stale_since(self, now: datetime, is_whole: bool) -> str:
        """The first day whose sums have to be read: of the month if `is_whole`, or if none of it was read yet."""
        first = f"{now:%Y-%m}-01"
        if is_whole or self._month != first:
            return first
        return max(first, min((f"{now:%Y-%m-%d}", *self._departing)))

    def arrived(self, now: datetime, since: str, rows: Iterable[tuple[str, str, int]]) -> None:
        """The counters have these sums of day and key since that day, with all that was on its way."""
        first = f"{now:%Y-%m}-01"
        read: Totals = {}
        for day, key, tokens in rows:
            read.setdefault(day, Counter())[key] = tokens
        with self._lock:
            kept = {day: keys for day, keys in self._counted.items() if first <= day < since}
            self._counted, self._departing, self._month = kept | read, {}, first


def ends(now: datetime) -> tuple[str, str]:
    """When the current day and month end, for people."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow = midnight + timedelta(days=1)
    next_month = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    return f"{tomorrow:%Y-%m-%d} 00:00 UTC", f"{next_month:%Y-%m-%d} 00:00 UTC"
