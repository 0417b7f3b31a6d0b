"""Tokens of a day and a month: a used budget refuses requests, across processes and restarts, until its period ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.budgets import Budgets
from gateway.errors import ApiError
from gateway.keys import Key, KeyLimits
from gateway.periods import Meter, Periods, ends
from gateway.usage import Counters, Ended, Usage

DAY, MONTH = 100, 250
FIRST = datetime(2026, 11, 28, 12, tzinfo=UTC)
OF_KEY, OF_TENANT = Meter("key", "eh-a"), Meter("tenant", "acme")


@dataclass
class Request:
    """An admitted request; `seen_by` lists the processes that have read its tokens."""

    process: int
    tokens: int
    began: datetime
    has_ended: bool = False
    is_counted: bool = False
    seen_by: set[int] = field(default_factory=set)


@dataclass
class World:
    """Processes of a host with a test calendar; the folder outlives them."""

    folder: Path
    processes: int
    key: Key
    now: datetime = FIRST
    requests: list[Request] = field(default_factory=list)
    bounds: dict[str, int] = field(default_factory=dict)
    """The upper bound of each day's tokens: its budget, plus tokens of running and not yet seen requests."""

    def __post_init__(self) -> None:
        self.usages = [self.started() for _ in range(self.processes)]
        self.looked = [self.now] * self.processes
        self.unread: list[set[datetime]] = [set() for _ in self.usages]

    def started(self) -> Usage:
        usage = Usage(str(self.folder))
        usage.days = 31
        usage.count(self.now)
        return usage

    def of(self, requests: Iterator[Request], letters: int) -> int:
        """Returns the tokens of requests of this day (10 letters), or of this month (7)."""
        period = f"{self.now:%Y-%m-%d}"[:letters]
        return sum(request.tokens for request in requests if f"{request.began:%Y-%m-%d}"[:letters] == period)

    def asks(self, number: int, tokens: int) -> None:
        """Sends a new request; it is admitted only if the tokens that the process sees are below the budgets."""
        place = number % self.processes
        budgets = Budgets("")
        budgets.periods, budgets.calendar = self.usages[place].periods, lambda: self.now
        try:
            budgets.check_periods(self.key)
            is_taken = True
        except ApiError as refusal:
            assert (refusal.status, refusal.kind, refusal.headers()) == (
                429, "insufficient_quota", [(b"x-should-retry", b"false")],
            )  # fmt: skip
            is_taken = False
        of_day, of_month = (self.of((r for r in self.requests if place in r.seen_by), most) for most in (10, 7))
        assert is_taken == (of_day < DAY and of_month < MONTH)
        if is_taken:
            self.requests.append(Request(place, tokens, self.now))
            unseen = self.of((r for r in self.requests if place not in r.seen_by), 10)
            self.bounds[f"{self.now:%Y-%m-%d}"] = DAY + unseen

    def ends(self, number: int, _tokens: int) -> None:
        under_way = [request for request in self.requests if not request.has_ended]
        if under_way:
            request = under_way[number % len(under_way)]
            request.has_ended, request.seen_by = True, {request.process}
            self.unread[request.process].add(request.began)
            numbers = (request.tokens - 1, 0, 1)
            self.usages[request.process].add(request.began.timestamp(), "eh-a", "acme", "llama", False, numbers, 0.1)

    def counts(self, number: int, _tokens: int) -> None:
        place = number % self.processes
        self.usages[place].count(self.now)
        self.sees(place, counts_all=self.looked[place] != self.now)
        self.looked[place] = self.now

    def sees(self, place: int, counts_all: bool) -> None:
        """Makes the process count its own log, or all logs, and read the counters."""
        since = FIRST if counts_all else min([self.now, *self.unread[place]])
        self.unread[place] = set()
        for request in self.requests:
            if request.has_ended and (counts_all or request.process == place):
                request.is_counted = True
            if request.is_counted and request.began >= since:
                request.seen_by.add(place)

    def dies(self, number: int, _tokens: int) -> None:
        """Kills the process and its requests, and starts another in its place."""
        place = number % self.processes
        killed = self.usages[place]
        for held in (killed._log, killed._counters):
            if held:
                held.close()
        self.requests = [r for r in self.requests if r.has_ended or r.process != place]
        self.usages[place], self.looked[place] = self.started(), self.now
        for request in self.requests:
            request.seen_by.discard(place)
        self.sees(place, counts_all=True)

    def waits(self, _number: int, _tokens: int) -> None:
        """Moves the clock by a day, after which each process counts twice."""
        self.now += timedelta(days=1)
        for place in (*range(self.processes), *range(self.processes)):
            self.counts(place, 0)


@contextmanager
def world(processes: int) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp())
    limits = KeyLimits(tokens_per_day=DAY, tokens_per_month=MONTH)
    made = World(folder, processes, Key("k", "eh-a", "acme", frozenset(), 0, limits))
    try:
        yield made
    finally:
        for usage in made.usages:
            usage.close()
        shutil.rmtree(folder)


WORDS = ("asks", "asks", "ends", "ends", "counts", "dies", "waits")
STEPS = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, 5), st.sampled_from([20, 35, 50, 99])), min_size=15, max_size=40
)


@settings(max_examples=80, deadline=None)
@given(processes=st.integers(1, 3), steps=STEPS)
def test_killed_processes_overrun_a_budget_by_running_requests_at_most(
    processes: int, steps: list[tuple[str, int, int]]
) -> None:
    """A process sees its own requests at once, and other processes' requests after both have counted; a restart
    forgets no request."""
    with world(processes) as made:
        for word, number, tokens in steps:
            getattr(made, word)(number, tokens)
        used: dict[str, int] = {}
        for request in made.requests:
            day = f"{request.began:%Y-%m-%d}"
            used[day] = used.get(day, 0) + request.tokens * request.has_ended
        assert all(tokens < made.bounds[day] for day, tokens in used.items())


def test_the_share_of_each_host_is_rounded_up() -> None:
    budgets = Budgets("")
    budgets.hosts, budgets.calendar = 3, lambda: FIRST
    key = Key("k", "eh-a", "acme", frozenset(), 0, KeyLimits(tokens_per_day=100))
    budgets.periods.add("2026-11-28", ("eh-a", "acme", "", 33, 0))
    budgets.check_periods(key)
    budgets.periods.add("2026-11-28", ("eh-a", "acme", "", 1, 0))
    with pytest.raises(ApiError, match="34 tokens a day on this host, one of 3"):
        budgets.check_periods(key)


def test_a_request_that_began_yesterday_is_counted_in_its_own_month(tmp_path: Path) -> None:
    """The counters are read again from the request's day on, not only from today on."""
    usage, today = Usage(str(tmp_path)), FIRST + timedelta(days=1)
    usage.days = 31
    usage.count(today)
    usage.add(FIRST.timestamp(), "eh-a", "acme", "llama", False, (3, 0, 4), 0.1)
    usage.count(today)
    assert usage.periods.used(OF_KEY, today) == (0, 7)
    usage.close()


def test_tokens_of_past_months_are_dropped_from_memory() -> None:
    usage = Usage("")
    usage.add(FIRST.timestamp(), "eh-a", "acme", "llama", False, (3, 0, 4), 0.1)
    usage.count(FIRST)
    assert usage.periods.used(OF_KEY, FIRST) == (7, 7)
    usage.count(FIRST + timedelta(days=5))
    assert usage.periods.used(OF_KEY, FIRST) == (0, 0)


def test_a_year_ends_with_its_last_month() -> None:
    new_year = datetime(2027, 1, 1, tzinfo=UTC)
    assert ends(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == (new_year, new_year)
    leap_day, march = datetime(2028, 2, 29, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)
    assert ends(datetime(2028, 2, 28, 1, tzinfo=UTC)) == (leap_day, march)


AMOUNTS = st.lists(
    st.tuples(st.sampled_from(["eh-a", "eh-a/ann", "eh-b"]), st.sampled_from(["EUR", "KRW"]), st.integers(0, 10**22)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(amounts=AMOUNTS)
def test_sums_of_money_are_exact_however_large(amounts: list[tuple[str, str, int]]) -> None:
    """SQLite's integers end at 9.2 · 10^18, a sum of ten million units: one very expensive request would stop all
    counting."""
    with tempfile.TemporaryDirectory() as folder:
        counters, periods = Counters(Path(folder)), Periods()
        for key, currency, cost in amounts:
            group = ("2026-11-28", key, "acme", "llama", currency)
            counters._add(Ended(group, False, 1, 0, 1, cost, 0.1).line())
        periods.arrived(FIRST, "2026-11-01", counters.sums("2026-11-01"))
        rows = {(row["key"], row["currency"]): row["cost"] for row in counters.rows()}
        counters.close()
    for holder in {key for key, _, _ in amounts}:
        for unit in ("EUR", "KRW"):
            exact = sum(cost for key, currency, cost in amounts if (key, currency) == (holder, unit))
            assert rows.get((holder, unit), 0) == exact
    for unit in ("EUR", "KRW"):
        of_a = sum(cost for key, currency, cost in amounts if currency == unit and key.startswith("eh-a"))
        of_all = sum(cost for _, currency, cost in amounts if currency == unit)
        assert periods.used(Meter("key", "eh-a", unit), FIRST) == (of_a, of_a)
        assert periods.used(OF_TENANT._replace(unit=unit), FIRST) == (of_all, of_all)
