"""Limits across several processes and hosts, some of them killed: no minute exceeds the limit."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit import Record
from gateway.budgets import Budgets, Lease
from gateway.errors import ApiError
from gateway.keys import Key, KeyLimits


@dataclass
class Reservation:
    """An admitted request and its reserved tokens."""

    lease: Lease
    at: float
    tokens: int
    process: int
    used: int | None = None


@dataclass
class World:
    """Processes of hosts with a test clock; a host's processes share its folder."""

    root: Path
    hosts: int
    processes: int
    key: Key
    now: float = 1000.5
    reservations: list[Reservation] = field(default_factory=list)

    def __post_init__(self) -> None:
        for host in range(self.hosts):
            (self.root / str(host)).mkdir()
        self.running = [self.started(number) for number in range(self.hosts * self.processes)]

    def started(self, number: int) -> Budgets:
        budgets = Budgets(str(self.root / str(number % self.hosts)), lambda: self.now)
        budgets.hosts, budgets.processes = self.hosts, self.processes
        return budgets

    def asks(self, number: int, tokens: int) -> ApiError | None:
        """Sends a request of this many tokens to a process; returns the refusal or None."""
        lease = self.running[number % len(self.running)].lease(self.key)
        try:
            lease.begin()
            lease.reserve(tokens)
        except ApiError as refusal:
            lease.settle(Record("", "", 0, end="rate_limit_exceeded"), False)
            return refusal
        self.reservations.append(Reservation(lease, self.now, tokens, number % len(self.running)))
        return None

    def ends(self, number: int, share: float) -> None:
        """Ends a running request that used this share of its reserved tokens."""
        under_way = [reservation for reservation in self.reservations if reservation.used is None]
        if under_way:
            request = under_way[number % len(under_way)]
            request.used = int(request.tokens * share)
            request.lease.settle(Record("", "", 0, prompt_tokens=request.used), False)

    def dies(self, number: int) -> None:
        """Kills a process and its requests, and starts another in its place."""
        place = number % len(self.running)
        killed = self.running[place]._shared
        if killed:
            killed.abandon()
        self.running[place] = self.started(place)
        for reservation in self.reservations:
            if reservation.process == place and reservation.used is None:
                reservation.used = reservation.tokens  # the process is gone, and nobody else settles its reservation

    def close(self) -> None:
        for budgets in self.running:
            budgets.close()
            budgets._alone.close()


LIMITS = KeyLimits(requests_per_minute=7, tokens_per_minute=100, concurrent=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("asks"), st.integers(0, 5), st.integers(1, 60)),
        st.tuples(st.just("ends"), st.integers(0, 5), st.sampled_from([0.0, 0.3, 1.0])),
        st.tuples(st.just("dies"), st.integers(0, 5)),
        st.tuples(st.just("waits"), st.sampled_from([0.4, 7.0, 29.3, 58.9, 61.0])),
    ),
    min_size=5,
    max_size=40,
)


@contextmanager
def world(hosts: int = 1, processes: int = 1, limits: KeyLimits = LIMITS) -> Iterator[World]:
    """Yields a world in its own folder."""
    root = Path(tempfile.mkdtemp())
    made = World(root, hosts, processes, Key("k", "k", "t", frozenset(), 0, limits))
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


@settings(max_examples=40, deadline=None)
@given(hosts=st.integers(1, 2), processes=st.integers(1, 3), steps=STEPS)
def test_killed_processes_never_let_a_minute_exceed_the_limit(hosts: int, processes: int, steps: list[Any]) -> None:
    """The limits are of requests, tokens and open requests, over all processes and hosts, rounded up for each host."""
    with world(hosts, processes) as made:
        for word, *values in steps:
            if word == "waits":
                made.now += values[0]
            else:
                getattr(made, word)(*values)
            under_way = sum(reservation.used is None for reservation in made.reservations)
            assert under_way <= LIMITS.concurrent + hosts - 1
        for first in made.reservations:
            minute = [reservation for reservation in made.reservations if first.at <= reservation.at <= first.at + 60]
            assert len(minute) <= LIMITS.requests_per_minute + hosts - 1
            used = sum(reservation.tokens if reservation.used is None else reservation.used for reservation in minute)
            assert used <= LIMITS.tokens_per_minute + hosts - 1


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from([0.0, 0.3, 5.0, 20.0]), st.integers(1, 100)), max_size=15))
def test_a_client_that_waits_for_retry_after_is_admitted(steps: list[tuple[float, int]]) -> None:
    with world(limits=KeyLimits(requests_per_minute=7, tokens_per_minute=100)) as made:
        for wait, tokens in steps:
            made.now += wait
            for _ in itertools.count():
                refusal = made.asks(0, tokens)
                if refusal is None:
                    break
                assert 0 < refusal.retry_after <= 61
                made.now += refusal.retry_after


def test_a_host_that_dies_takes_its_share_with_it_and_no_more() -> None:
    with world(hosts=2, processes=2, limits=KeyLimits(requests_per_minute=10)) as made:
        assert [made.asks(0, 1) for _ in range(5)] == [None] * 5  # spent by host 0, which then leaves
        taken = [made.asks(number, 1) is None for number in (1, 3) * 10]
        assert sum(taken) == 5
        made.now += 61
        assert sum(made.asks(number, 1) is None for number in (1, 3) * 10) == 5


@pytest.mark.parametrize("at", [1000.0, 1000.99])
def test_a_minute_is_a_whole_minute_and_little_more(at: float) -> None:
    with world(limits=KeyLimits(requests_per_minute=1)) as made:
        made.now = at
        assert made.asks(0, 1) is None
        made.now = at + 60
        assert made.asks(0, 1)
        made.now = at + 61
        assert made.asks(0, 1) is None
