"""Each key's requests and tokens a minute, and its open requests: reserved first, then settled with the real usage.

Counting. Every POST is a request, in the minute of its arrival; a refused one is not, unless it is refused for its
tokens. A chat reserves its prompt and `max_tokens` for each of its `n` answers; without `max_tokens` it reserves
`DEFAULT_ANSWER_TOKENS` for an answer. An encoder's text reserves its bytes, or as many tokens as the model takes. At
the end the reservation is replaced by the real usage. An interrupted stream used its prompt and what it sent: a token
for each event, for each id or for 8 characters, whichever are most. An answer whose client left used its reservation; a
request that the model refused used nothing. In any 60 seconds no more than the limit is accepted, except for answers
that became longer than `DEFAULT_ANSWER_TOKENS`: those count as well.

A large body reserves an eighth of its bytes before it is read, and has used them if it is then refused. A text that is
only counted (`/tokenize`) reserves the same way, and uses its tokens.

Sharing of a limit L among gateways.

- The processes of a host share one account (`account`): together they accept exactly L. The usage of a dead process
  stays in its minute; its open requests are no longer counted, at once.
- Of H hosts each accepts L/H, rounded up. Hosts do not talk to each other: if one dies, or cannot be reached, the
  others keep their shares, so that all together stay within L + H - 1. The dead host's share is lost until the
  inventory has one host less.
- A process that cannot use the account (no folder, a full disk) counts alone, and accepts its share of P processes:
  L/(H·P), rounded up. It tries the account again every few seconds.

Budgets of a day or a month (UTC) are in quotas.py; their sums survive a restart (`periods`).
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import gateway.clock
from gateway import quotas
from gateway.account import WINDOW_SECONDS, Account, Ended, Spent
from gateway.audit import Record
from gateway.errors import ApiError
from gateway.keys import NOBODY, Key, KeyLimits
from gateway.periods import Periods
from gateway.quotas import Header, duration
from gateway.settings import Settings

DEFAULT_ANSWER_TOKENS = 4096
"""Tokens reserved for an answer without `max_tokens`. A whole context would exceed the limit of most keys for a
minute."""
AGAIN_SECONDS = 5.0
UNFINISHED = ("left", "stuck", "cut", "timeout", "invalid_api_key", "answer_too_large")
"""Endings of a request on which the model has worked."""
READ = (400, 500)
"""Statuses of requests that ended after they were read; other errors come before the body is read."""
REQUESTS, TOKENS = 1, 2

T = TypeVar("T")


class Budgets:
    """The accounts of a process. A limit is shared among `hosts`, and by the `processes` of a host."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        self.hosts = self.processes = 1
        self._alone = Account("", clock)
        self._shared: Account | None = None
        self._again = 0.0
        self.periods = Periods()
        self.calendar: Callable[[], datetime] = lambda: gateway.clock.now()

    def follow(self, settings: Settings) -> None:
        self.hosts, self.processes = settings.hosts, len(settings.listen.ports)

    def lease(self, key: Key) -> Lease:
        return Lease(self, key)

    def usage(self, key: Key) -> Usage:
        """The key's usage on this host."""

        def look(account: Account, _share: int) -> Usage:
            with account.looked_at(key.digest) as spent:
                return Usage(spent, account.ended(key.digest), key.limits.shared(self.hosts))

        return self.counted(look)

    def counted(self, ask: Callable[[Account, int], T]) -> T:
        """The result of `ask` on the shared account, or on the process's own account if the shared account fails.

        `ask` also gets the number of processes that share a limit.
        """
        if self._folder and self._clock() >= self._again:
            try:
                self._shared = self._shared or Account(self._folder, self._clock)
                return ask(self._shared, self.hosts)
            except (sqlite3.Error, OSError) as error:
                self._again = self._clock() + AGAIN_SECONDS
                print(f"<4>limits are counted by this process alone: {error}", file=sys.stderr, flush=True)
        return ask(self._alone, self.hosts * self.processes)

    def check_periods(self, key: Key) -> None:
        """Checks that the budgets of the key and its tenant for the day and the month are not used up.

        Raises: ApiError 429.
        """
        quotas.check(key, self.periods, self.hosts, self.calendar())

    def of_periods(self, key: Key) -> list[Header]:
        return quotas.headers(key, self.periods, self.hosts, self.calendar())

    def standing(self, key: Key) -> list[tuple[quotas.Quota, int, datetime]]:
        """The budgets of the key and its tenant on this host: each with the used amount, and when it is renewed."""
        return list(quotas.standing(key, self.periods, self.hosts, self.calendar()))

    def close(self) -> None:
        """Closes both accounts; requests of this process no longer count as open."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        self._alone.close()


@dataclass(frozen=True)
class Usage:
    """A key's last minute, its totals on this host, and its limits on this host."""

    spent: Spent
    ended: Ended
    limits: KeyLimits


class Lease:
    """A request's share of its key's limits; `rate_headers` are the answer's headers, as OpenAI names them."""

    def __init__(self, budgets: Budgets, key: Key) -> None:
        self.rate_headers: list[Header] = []
        self._of_periods: list[Header] = []
        self._budgets, self._key = budgets, key
        self._account: Account | None = None
        self._second = self._tokens = 0
        self.used = (0, 0)
        """Tokens of prompt and answer, once the request is over."""

    def begin(self) -> None:
        """Counts the request.

        Raises: ApiError 429.
        """
        if self._key is NOBODY:
            return
        self.rate_headers = self._of_periods = self._budgets.of_periods(self._key)
        self._budgets.check_periods(self._key)
        key = self._key.digest

        def ask(account: Account, share: int) -> None:
            limits = self._key.limits.shared(share)
            with account.looked_at(key, limits.concurrent) as spent:
                self.rate_headers = headers(spent, limits) + self._of_periods
                if limits.requests_per_minute and spent.requests >= limits.requests_per_minute:
                    wait = spent.free_in(REQUESTS, spent.requests - limits.requests_per_minute + 1)
                    raise refused(f"all {limits.requests_per_minute} requests a minute of this key are used", wait)
                if limits.concurrent and spent.running >= limits.concurrent:
                    raise refused(f"{spent.running} requests of this key are under way, which is its limit", 1)
                account.begin(key, spent.now)
                self.rate_headers = headers(account.spent(key, spent.now), limits) + self._of_periods
            self._account = account

        self._budgets.counted(ask)

    def reserve(self, tokens: int) -> None:
        """Reserves tokens in total for the request, including earlier reservations.

        Raises: ApiError 429.
        """
        if self._account is None:
            return
        key = self._key.digest

        def ask(account: Account, share: int) -> None:
            limits = self._key.limits.shared(share)
            most = limits.tokens_per_minute
            with account.looked_at(key) as spent:
                is_known = account is self._account and spent.now - self._second < WINDOW_SECONDS
                more = tokens - self._tokens if is_known else tokens
                message = f"this request reserves {tokens} tokens, and this key has {most} a minute"
                if most and tokens > most:
                    raise refused(f"{message}; ask for a smaller `max_tokens`, or send less", 0)
                if most and more > most - spent.tokens:
                    wait = spent.free_in(TOKENS, spent.tokens + more - most)
                    raise refused(f"{message}, of which {max(most - spent.tokens, 0)} are free", wait)
                if account is not self._account:  # the account in which the request began has failed
                    account.begin(key, spent.now)
                second = self._second if is_known and self._tokens else int(spent.now)
                account.reserve(key, second, more)
                self.rate_headers = headers(account.spent(key, spent.now), limits) + self._of_periods
            self._account, self._second, self._tokens = account, second, tokens

        self._budgets.counted(ask)

    def settle(self, record: Record, streams: bool) -> None:
        """Ends the request, and frees the unused part of its reservation."""
        account, self._account = self._account, None
        self.used = prompt, completion = used(record, self._tokens, streams)
        if account is None:
            return
        with suppress(sqlite3.Error):  # after an error, the account's next change includes this one
            account.settle(self._key.digest, self._second, self._tokens, prompt, completion)


def used(record: Record, reserved: int, streams: bool) -> tuple[int, int]:
    """Tokens of prompt and answer that a finished request used.

    A request that was refused after its text was read used the charge for reading it.
    """
    if not record.end:
        return record.prompt_tokens or record.read_tokens, record.completion_tokens
    made = max(record.completion_tokens, record.events)
    if streams and (made or record.end in UNFINISHED):
        return record.prompt_tokens, made
    if record.end in UNFINISHED:
        return reserved, 0
    return (record.read_tokens if record.status in READ else 0), 0


def headers(spent: Spent, limits: KeyLimits) -> list[Header]:
    """An answer's rate-limit headers, by OpenAI's names; a kind without a limit has none."""
    rate_headers: list[Header] = []
    kinds = (
        (b"requests", REQUESTS, limits.requests_per_minute, spent.requests),
        (b"tokens", TOKENS, limits.tokens_per_minute, spent.tokens),
    )
    for name, kind, limit, count in kinds:
        if limit:
            wait = spent.free_in(kind, count)
            fields = (("limit", str(limit)), ("remaining", str(max(limit - count, 0))), ("reset", duration(wait)))
            rate_headers += [(b"x-ratelimit-%s-%s" % (word.encode(), name), value.encode()) for word, value in fields]
    return rate_headers


def refused(message: str, wait: int) -> ApiError:
    """OpenAI's refusal. A wait of 0 means that waiting does not help, and that clients should not retry."""
    again = f"; try again in {wait} s" if wait else ""
    return ApiError(429, message + again, code="rate_limit_exceeded", retry_after=wait, is_spent=not wait)


def folder_of_the_unit() -> str:
    return os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
