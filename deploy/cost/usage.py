"""Usage that gateways counted, added up over hosts and grouped by the operator's choice."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.cost.budgets import PICO, Budget, budget_table
from deploy.refusals import on_one_line, refuse

GROUPS = ("key", "person", "tenant", "model", "day")
"""The ways to group usage. A person is named in a proxy's header beside a key; empty without the header."""
MEANT = {"user": "person", "users": "person", "team": "tenant", "customer": "tenant", "date": "day", "time": "day"}
"""Other words for the groups."""
COUNTS = ("requests", "errors", "prompt_tokens", "cached_tokens", "completion_tokens")
TITLES = ("requests", "errors", "tokens in", "cached", "tokens out", "cost", "p50 s", "p99 s")
MOST_COUNT, MOST_SECONDS = 10**36, 1e9
"""Limits of a host's row; a larger number is no usage, and is refused."""
FORMULA = re.compile(r"(?:^|[;,\t|])\W*[=+@\uff0b\uff0d\uff1d\uff20-]")
"""A spreadsheet may take the word for a formula, also if it splits lines by semicolons (OWASP, "CSV Injection")."""
BRACKETS, BYTES_A_BRACKET = 64, 32
"""Most brackets of a host's answer: its rows have two each, and 150 bytes."""


@dataclass
class Line:
    """A group's counts. `cost` is by currency, in 10^-12; `times` are requests by seconds."""

    group: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    cost: dict[str, int] = field(default_factory=dict)
    times: dict[float, int] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds the row of a host to the counts."""
        for name in COUNTS:
            self.counts[name] += row[name]
        if row["currency"]:
            self.cost[row["currency"]] = self.cost.get(row["currency"], 0) + row["cost"]
        for seconds, requests in row["times"].items():
            self.times[seconds] = self.times.get(seconds, 0) + requests

    @property
    def cost_text(self) -> str:
        return " + ".join(f"{pico / PICO:.4f} {currency}" for currency, pico in sorted(self.cost.items()))

    @property
    def rank(self) -> tuple[int, int, tuple[str, ...]]:
        """Sort key of lines: the highest cost first, then most tokens, then by name."""
        tokens = self.counts["prompt_tokens"] + self.counts["completion_tokens"]
        return -sum(self.cost.values()), -tokens, self.group

    def quantile(self, share: float) -> float:
        """Seconds within which this share of the requests ended, accurate to 9 %."""
        pending = math.ceil(sum(self.times.values()) * share)
        for seconds in sorted(self.times):
            pending -= self.times[seconds]
            if pending <= 0:
                return round(seconds, 3)
        return 0.0


@dataclass(frozen=True)
class UsageReport:
    """The usage since a day; `missing` are hosts that did not answer."""

    by: tuple[str, ...]
    since: str
    lines: tuple[Line, ...]
    missing: tuple[str, ...]
    until: str = ""
    budgets: tuple[Budget, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about budgets that could not be read."""

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists; cost in units of its currency."""
        lines = [
            dict(zip(self.by, line.group, strict=True))
            | line.counts
            | {"cost": {currency: pico / PICO for currency, pico in sorted(line.cost.items())}}
            | {"p50_seconds": line.quantile(0.5), "p99_seconds": line.quantile(0.99)}
            for line in self.lines
        ]
        last = {"until": self.until} if self.until else {}
        budgets = [budget.to_json() for budget in self.budgets]
        report = {"since": self.since, **last, "by": list(self.by), "usage": lines, "budgets": budgets}
        return report | {"missing": list(self.missing)}


def groups_of(words: str) -> tuple[str, ...]:
    """The groups that `--by` names. Raises: a Refusal for any other word."""
    by = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if unknown := [word for word in by if word not in GROUPS]:
        word = unknown[0].lower()
        meant = MEANT.get(word, word.removesuffix("s"))
        raise refuse(
            "no-such-group",
            f"usage is not counted by {unknown[0]}",
            where="--by",
            seen=words,
            wanted=f"some of {', '.join(GROUPS)}, with commas between them",
            attempt=f"--by {meant if meant in GROUPS else 'tenant,model'}",
        )
    return by


def added_up(
    hosts: Mapping[str, Sequence[Mapping[str, Any]] | None], by: tuple[str, ...], since: str, until: str = ""
) -> UsageReport:
    """The report over the rows of each host from a day up to another; `None` is the answer of a silent host.

    By day, the days are in order; within a day, and without days, the line with the highest cost or use comes first.
    """
    lines: dict[tuple[str, ...], Line] = {}
    for rows in hosts.values():
        for row in (row for row in rows or () if row["day"] >= since and (not until or row["day"] <= until)):
            group = tuple(row[name] for name in by)
            lines.setdefault(group, Line(group)).add(row)
    missing = tuple(sorted(host for host, rows in hosts.items() if rows is None))
    days = [place for place, name in enumerate(by) if name == "day"]
    ordered = sorted(lines.values(), key=lambda line: ([line.group[place] for place in days], *line.rank))
    return UsageReport(by, since, tuple(ordered), missing, until)


def rows_of(text: str | None) -> list[dict[str, Any]] | None:
    """The rows in a host's answer; None for an unreadable answer, or for too many empty brackets, which take
    gigabytes."""
    if text is None or text.count("[") + text.count("{") > BRACKETS + len(text) // BYTES_A_BRACKET:
        return None
    try:
        return [_row(row) for row in json.loads(text)["rows"]]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its types checked. Raises: ValueError, OverflowError, KeyError or TypeError for any other row."""
    key, _, person = str(row["key"]).partition("/")
    words = {**row, "key": key, "person": person}
    texts = {name: on_one_line(str(words[name]))[:256] for name in (*GROUPS, "currency")}
    numbers = {name: _count(row[name]) for name in (*COUNTS, "cost")}
    times = {float(seconds): _count(count) for seconds, count in row["times"].items()}
    if not all(0 <= seconds <= MOST_SECONDS for seconds in times):  # false for NaN and infinity
        raise ValueError("seconds of no request")
    return {**texts, **numbers, "times": times}


def _count(value: Any) -> int:
    count = int(value)
    if not 0 <= count <= MOST_COUNT:
        raise ValueError("a count of no usage")
    return count


def table(report: UsageReport) -> RenderableType:
    """The report as a table for a person."""
    shown = Table(box=None, pad_edge=False)
    for title in report.by:
        shown.add_column(title)
    for title in TITLES:
        shown.add_column(title, justify="right")
    for line in report.lines:
        times = (f"{line.quantile(share):,.3f}" for share in (0.5, 0.99))
        counts = (f"{line.counts[name]:,}" for name in COUNTS)
        shown.add_row(*(word or "-" for word in line.group), *counts, line.cost_text or "-", *times)
    until = f" until {report.until}" if report.until else ""
    notes = [Text(f"since {report.since}{until}, UTC; p50 and p99 within 9 %", style="dim")]
    budgets: list[RenderableType] = [budget_table(report.budgets), Text("")] if report.budgets else []
    red = (Text(sentence, style="red") for sentence in (*missing_sentences(report), *report.notes))
    return Group(shown, Text(""), *budgets, *notes, *red)


def missing_sentences(report: UsageReport) -> list[str]:
    return [f"{host} did not answer: its numbers are missing here, and safe on the host" for host in report.missing]


def as_csv(report: UsageReport) -> str:
    """The report for a spreadsheet: a first line of column names; each cost with its currency."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*report.by, *COUNTS, "cost", "p50_seconds", "p99_seconds"])
    writer.writerows(_cells(report.lines))
    return text.getvalue()


def _cells(lines: Iterable[Line]) -> Iterable[list[object]]:
    for line in lines:
        words = [f"'{word}" if FORMULA.search(word) else word for word in line.group]
        yield [*words, *line.counts.values(), line.cost_text, line.quantile(0.5), line.quantile(0.99)]
