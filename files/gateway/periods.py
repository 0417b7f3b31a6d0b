"""Tokens and cost of each key and tenant in the current day and month (UTC), in memory: a request reads no file.

The sums are those of the host's counters (usage.py), which all its processes write and which survive a restart, plus
this process's additions since it last read them. Another process's tokens are visible within two seconds. A request
that ends while sums are read may count twice for a second, which never exceeds a budget.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

TOKENS = "tokens"


class Meter(NamedTuple):
    """A sum: the tokens, or the cost in a currency, of a key or a tenant."""

    whose: str
    """"key" or "tenant"."""
    name: str
    """The public beginning of the key, or the tenant."""
    unit: str = TOKENS
    """"tokens", or the currency; cost is counted in 10^-12 of the currency."""


Totals = dict[str, Counter[Meter]]
"""Sums by day, such as 2026-11-26."""
Used = tuple[str, str, str, int, int]
"""Key, tenant, currency, tokens and cost of a request, or of several."""


def meters(used: Used) -> Iterator[tuple[Meter, int]]:
    """The meters that a request changes, and the amounts. `PREFIX/PERSON` is a person with that key (identity.py)."""
    key, tenant, currency, tokens, cost = used
    for whose, name in (("key", key.partition("/")[0]), ("tenant", tenant)):
        if tokens:
            yield Meter(whose, name), tokens
        if cost and currency:
            yield Meter(whose, name, currency), cost


class Periods:
    """The sums of a process. Requests add in the event loop; a thread reads the counters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Totals = {}
        self._fresh: Totals = {}
        self._departing: Totals = {}
        """Sums that are being written to the counters."""
        self._month = ""

    def add(self, day: str, used: Used) -> None:
        with self._lock:
            sums = self._fresh.setdefault(day, Counter())
            for meter, amount in meters(used):
                sums[meter] += amount

    def used(self, meter: Meter, now: datetime) -> tuple[int, int]:
        """The meter's sums for the current day and month."""
        today = f"{now:%Y-%m-%d}"
        with self._lock:
            parts = (self._counted, self._departing, self._fresh)
            of_day = sum(part[today][meter] for part in parts if today in part)
            month = today[:7]
            of_month = sum(sums[meter] for part in parts for day, sums in part.items() if day[:7] == month)
        return of_day, of_month

    def depart(self, now: datetime) -> None:
        """Sets all usage so far aside for writing; drops the remaining days before this month."""
        with self._lock:
            for day, sums in self._fresh.items():
                self._departing.setdefault(day, Counter()).update(sums)
            self._fresh = {}
            self._departing = {day: sums for day, sums in self._departing.items() if day >= f"{now:%Y-%m}-01"}

    def stale_since(self, now: datetime, is_whole: bool) -> str:
        """The first day whose sums have to be read: the month's first if `is_whole`, or if no day of the month was
        read yet."""
        first = f"{now:%Y-%m}-01"
        if is_whole or self._month != first:
            return first
        return max(first, min((f"{now:%Y-%m-%d}", *self._departing)))

    def arrived(self, now: datetime, since: str, rows: Iterable[tuple[str, Used]]) -> None:
        """Takes over the counters' sums by day since that day, which include all usage that was set aside."""
        first = f"{now:%Y-%m}-01"
        read: Totals = {}
        for day, used in rows:
            sums = read.setdefault(day, Counter())
            for meter, amount in meters(used):
                sums[meter] += amount
        with self._lock:
            kept = {day: sums for day, sums in self._counted.items() if first <= day < since}
            self._counted, self._departing, self._month = kept | read, {}, first


def ends(now: datetime) -> tuple[datetime, datetime]:
    """The times at which the current day and month end."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1), (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
