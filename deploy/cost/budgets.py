"""Budgets of keys and tenants: the used and the remaining part of each, from the counters of all hosts."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table

from deploy.inventory.gateway_keys import KeyFile
from deploy.inventory.key_limits import MICRO

PICO = 10**12
"""Parts of a unit of money in which gateways count cost."""
COLUMNS = ("tenant", "key", "period", "budget", "used", "left", "renewed, UTC", "used up on")
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Budget:
    """A budget of a key, or of all keys of a tenant (`key` ""); money is in 10^-12 of `unit`."""

    tenant: str
    key: str
    period: str
    unit: str
    """"tokens", or a currency."""
    most: int
    used: int
    renewed: datetime
    used_up_on: tuple[str, ...]
    """Hosts that refuse its requests, because their own part is used up."""

    @property
    def left(self) -> int:
        return max(self.most - self.used, 0)

    def text(self, amount: int) -> str:
        return f"{amount:,} tokens" if self.unit == "tokens" else f"{amount / PICO:,.4f} {self.unit}"

    def to_json(self) -> dict[str, Any]:
        """Plain values; money in units of its currency."""
        parts = 1 if self.unit == "tokens" else PICO
        amounts = {name: getattr(self, name) / parts if parts > 1 else getattr(self, name) for name in AMOUNTS}
        return asdict(self) | amounts | {"renewed": f"{self.renewed:%Y-%m-%dT%H:%MZ}", "used_up_on": [*self.used_up_on]}


AMOUNTS = ("most", "used", "left")


def month_of(now: datetime) -> str:
    """The first day of the current month, from which budgets are counted."""
    return f"{now:%Y-%m}-01"


def budgets_of(content: KeyFile, hosts: Mapping[str, Rows | None], now: datetime) -> tuple[Budget, ...]:
    """The budgets in the file of keys, sorted by the remaining part; `None` is the answer of a silent host.

    Each host enforces its part of a budget, rounded up, as `quotas.py` of the gateway does.
    """
    owners = [("", line.tenant, line) for line in content.tenants]
    owners += [(key.prefix, key.tenant, key) for key in content.keys]  # type: ignore[misc]  # both have these budgets
    budgets = [
        _budget(key, tenant, period, unit, most, hosts, now)
        for key, tenant, line in owners
        for period in ("day", "month")
        for unit, most in _limits(line, period)
    ]
    return tuple(sorted(budgets, key=lambda budget: (budget.left / budget.most, budget.tenant, budget.key)))


def _limits(line: Any, period: str) -> Iterator[tuple[str, int]]:
    if tokens := getattr(line, f"tokens_per_{period}"):
        yield "tokens", tokens
    if cost := getattr(line, f"cost_per_{period}"):
        yield line.currency, cost * (PICO // MICRO)


def _budget(
    key: str, tenant: str, period: str, unit: str, most: int, hosts: Mapping[str, Rows | None], now: datetime
) -> Budget:
    since = f"{now:%Y-%m-%d}" if period == "day" else month_of(now)
    whose, name = ("key", key) if key else ("tenant", tenant)
    used = {
        host: sum(_amount(row, unit) for row in rows or () if row[whose] == name and row["day"] >= since)
        for host, rows in hosts.items()
    }
    full = sorted(host for host, amount in used.items() if amount >= _share(most, unit, len(hosts)))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    ends = midnight + timedelta(days=1)
    renewed = ends if period == "day" else (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    return Budget(tenant, key, period, unit, most, sum(used.values()), renewed, tuple(full))


def _share(most: int, unit: str, hosts: int) -> int:
    """A host's part, rounded up to tokens or to 10^-6 of the currency."""
    step = 1 if unit == "tokens" else PICO // MICRO
    return -(-most // (step * hosts)) * step


def _amount(row: Mapping[str, Any], unit: str) -> int:
    if unit == "tokens":
        return int(row["prompt_tokens"] + row["completion_tokens"])
    return int(row["cost"]) if row["currency"] == unit else 0


def budgets_as_csv(budgets: Sequence[Budget]) -> str:
    """The budgets for a spreadsheet: a first line of column names; money in units of its currency."""
    text = io.StringIO()
    names = [field.name for field in fields(Budget)]
    writer = csv.DictWriter(text, [*names, "left"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(budget.to_json() | {"used_up_on": " ".join(budget.used_up_on)} for budget in budgets)
    return text.getvalue()


def budget_table(budgets: Sequence[Budget]) -> Table:
    """The budgets as a table for a person."""
    shown = Table(box=None, pad_edge=False)
    for title in COLUMNS:
        shown.add_column(title, justify="right" if title in ("budget", "used", "left") else "left")
    for budget in budgets:
        amounts = (budget.text(amount) for amount in (budget.most, budget.used, budget.left))
        key, hosts = budget.key or "all keys", ", ".join(budget.used_up_on) or "-"
        shown.add_row(budget.tenant, key, budget.period, *amounts, f"{budget.renewed:%Y-%m-%d %H:%M}", hosts)
    return shown
