"""Budgets of a day and a month: tokens or money of a key, and of all keys of its tenant.

Usage is counted at the end of a request. A request may begin while no budget of its key and its tenant is used up, so
usage exceeds the budget at most by the open requests. Each of several hosts has its part, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gateway.errors import MOST_WAIT_SECONDS, QUOTA, ApiError
from gateway.keys import Key, KeyLimits
from gateway.periods import TOKENS, Meter, Periods, ends

Header = tuple[bytes, bytes]
MICRO, PICO = 10**6, 10**12
"""Parts of a unit of money: in limits of the file of keys, and in usage."""
NAMES = ("day", "month")


@dataclass(frozen=True)
class Quota:
    """A budget of a key on this host: an amount of tokens, requests or money for a day (`place` 0) or a month (1)."""

    meter: Meter
    place: int
    most: int

    def text(self, amount: int) -> str:
        """An amount of the budget's meter in words for a person."""
        if self.meter.unit == TOKENS:
            return f"{amount:,} tokens"
        return f"{amount / PICO:.6f}".rstrip("0").rstrip(".") + f" {self.meter.unit}"


def quotas(key: Key, hosts: int) -> Iterator[Quota]:
    """The budgets of a request's key, months first, because they end later."""
    named = (("key", key.prefix, key.limits), ("tenant", key.tenant, key.tenant_limits))
    for place in (1, 0):
        for whose, name, limits in named:
            if limits.has_periods:
                yield from _of(Meter(whose, name), limits.shared(hosts), place)


def _of(meter: Meter, limits: KeyLimits, place: int) -> Iterator[Quota]:
    tokens = (limits.tokens_per_day, limits.tokens_per_month)[place]
    cost = (limits.cost_per_day, limits.cost_per_month)[place]
    if tokens:
        yield Quota(meter, place, tokens)
    if cost:
        yield Quota(meter._replace(unit=limits.currency), place, cost * (PICO // MICRO))


def check(key: Key, periods: Periods, hosts: int, now: datetime) -> None:
    """Checks that no budget of the key and its tenant is used up.

    Raises: ApiError 429, with a `Retry-After` only if the budget is renewed within a time that clients wait.
    """
    for quota, used, end in standing(key, periods, hosts, now):
        if used >= quota.most:
            name = NAMES[quota.place]
            whose = "this key has" if quota.meter.whose == "key" else "the tenant of this key has"
            share = f" on this host, one of {hosts}" if hosts > 1 else ""
            message = f"{whose} {quota.text(quota.most)} a {name}{share}, and used {quota.text(used)}; the {name} ends"
            wait = math.ceil((end - now).total_seconds())
            helps = wait <= MOST_WAIT_SECONDS
            raise ApiError(
                429,
                f"{message} at {end:%Y-%m-%d %H:%M} UTC",
                code=QUOTA,
                retry_after=wait if helps else 0,
                is_spent=not helps,
            )


def standing(key: Key, periods: Periods, hosts: int, now: datetime) -> Iterator[tuple[Quota, int, datetime]]:
    """Each budget of the key and its tenant on this host, the amount used, and the time of its renewal."""
    for quota in quotas(key, hosts):
        yield quota, periods.used(quota.meter, now)[quota.place], ends(now)[quota.place]


def headers(key: Key, periods: Periods, hosts: int, now: datetime) -> list[Header]:
    """The answer's headers about budgets of tokens, the tightest of each period; budgets of money have none.

    OpenAI sends headers only for limits a minute. Cerebras and SambaNova send these names for a day (read 2026-11-27);
    the names for a month are similar. No server is known to send headers for money.
    """
    tightest: dict[int, tuple[int, int]] = {}
    for quota, used, _ in standing(key, periods, hosts, now):
        if quota.meter.unit == TOKENS:
            remaining = max(quota.most - used, 0)
            tightest[quota.place] = min(tightest.get(quota.place, (remaining, quota.most)), (remaining, quota.most))
    return [header for place in sorted(tightest) for header in _headers(place, *tightest[place], now)]


def _headers(place: int, remaining: int, most: int, now: datetime) -> Iterator[Header]:
    reset = duration(math.ceil((ends(now)[place] - now).total_seconds()))
    for word, value in (("limit", str(most)), ("remaining", str(remaining)), ("reset", reset)):
        yield f"x-ratelimit-{word}-tokens-{NAMES[place]}".encode(), value.encode()


def duration(seconds: int) -> str:
    """The seconds in the form of OpenAI's headers: 1s, 1m0s, 23h59m1s."""
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes}m{seconds % 60}s"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
