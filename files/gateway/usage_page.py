"""`/usage`: a tenant's requests, tokens, cost, errors, times and budgets, as this host counted them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from gateway import clock
from gateway.gateway import Gateway
from gateway.keys import Key
from gateway.page_frame import rendered
from gateway.quotas import NAMES
from gateway.usage import PICO, quantile

GROUPS = ("day", "model", "key")
PERIODS = {"1": "today", "7": "7 days", "31": "31 days", "366": "366 days"}
COUNTS = {
    "requests": "requests",
    "errors": "errors",
    "prompt_tokens": "tokens in",
    "cached_tokens": "cached",
    "completion_tokens": "tokens out",
}

Rows = list[dict[str, Any]]


async def usage_page(gateway: Gateway, key: Key | None, problem: str, form: Mapping[str, str]) -> bytes:
    """The page; without a key it asks for one. A key shows only the counts of its tenant."""
    group = form.get("by", "") if form.get("by") in GROUPS else GROUPS[0]
    period = form.get("days", "") if form.get("days") in PERIODS else "31"
    rows: Rows = []
    if key:
        since = f"{clock.now() - timedelta(days=int(period) - 1):%Y-%m-%d}"
        async with gateway.usage_turn:
            rows = await asyncio.to_thread(gateway.usage.of_tenant, key.tenant, since)
    return rendered(
        "usage.html.j2",
        path="/usage",
        asks=bool(gateway.keys.path),
        problem=problem,
        tenant=key.tenant if key else "",
        budgets=list(budgets(gateway, key)) if key else [],
        is_counting=gateway.usage.is_counting,
        hosts=gateway.settings.hosts,
        columns=[*COUNTS.values(), "cost", "p50", "p99"],
        rows=[(name, figures(part)) for name, part in parts(rows, group)],
        sums=figures(rows) if rows else [],
        groups=GROUPS,
        periods=PERIODS,
        group=group,
        period=period,
    )


def budgets(gateway: Gateway, key: Key) -> Iterator[tuple[str, str, str, int]]:
    """Each budget of the key and its tenant: its name, the used amount, what is left, and the percentage used."""
    for quota, used, end in gateway.budgets.standing(key):
        name = f"budget of this {quota.meter.whose} for the {NAMES[quota.place]}"
        left = f"{quota.text(max(quota.most - used, 0))} left; renewed at {end:%Y-%m-%d %H:%M} UTC"
        yield name, f"{quota.text(used).partition(' ')[0]} of {quota.text(quota.most)}", left, share(used, quota.most)


def share(count: int, limit: int) -> int:
    return min(100 * count // limit, 100) if limit else -1


def parts(rows: Rows, group: str) -> list[tuple[str, Rows]]:
    """The rows of each day, the latest first, or of each model or key by its name.

    A key's rows include those of its persons (identity.py), whom the page does not name, because all keys of a tenant
    see it.
    """
    lines: dict[str, Rows] = {}
    for row in rows:
        name = row[group].partition("/")[0] if group == "key" else row[group]
        lines.setdefault(name, []).append(row)
    return [(name or "none", lines[name]) for name in sorted(lines, reverse=group == "day")]


def figures(rows: Rows) -> list[str]:
    """The texts of a line: counts, cost in each currency, and seconds of the median and of 99 % of the requests."""
    times: Counter[int] = Counter()
    for row in rows:
        times.update(row["times"])
    seconds = (f"{quantile(times, share):.3g} s" for share in (0.5, 0.99))
    return [*(f"{total(rows, name):,}" for name in COUNTS), ", ".join(costs(rows)), *seconds]


def total(rows: Rows, name: str) -> int:
    return sum(int(row[name]) for row in rows)


def costs(rows: Rows) -> list[str]:
    """The cost in each currency."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["currency"]] += row["cost"]
    return [f"{cost / PICO:,.4f} {currency}" for currency, cost in sorted(sums.items()) if currency]
