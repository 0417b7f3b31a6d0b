"""Scrapes of a healthy fleet from Prometheus, and an hour made from them for promtool.

The file has the values of some consecutive scrapes of each series that a rule reads. The hour repeats them every 15 s:
counters continue from the end of the previous round, and times of day keep their age. So a rule that fires in that hour
fires on a healthy fleet.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deploy.monitoring.rules import groups
from tests.monitoring.promql import Selector, parse
from tests.monitoring.scraped import metrics

QUIET = Path(__file__).parent / "quiet.json"
EVERY_SECONDS, HOUR_SECONDS = 15, 3600
OF_DAY = re.compile(r".+(_timestamp_seconds|_mtime_seconds|_cert_expiry)")
"""Metrics that are points in time, of which only the age matters."""


def recorded(rows: Iterable[Mapping[str, Any]], source: str) -> str:
    """Returns the file's text; `rows` are the series of a range query with their raw samples."""
    wanted = selectors()
    series: dict[str, list[float]] = {}
    for row in rows:
        labels = dict(row["metric"])
        name = labels.pop("__name__")
        if any(_chooses(selector, name, labels) for selector in wanted):
            samples = [(at, float(value)) for at, value in row["values"]]
            values = [round(value - at, 3) if OF_DAY.fullmatch(name) else value for at, value in samples]
            inside = ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels.items()))
            series[f"{name}{{{inside}}}"] = values if len(set(values)) > 1 else values[:1]
    today = datetime.datetime.now(datetime.UTC).date()
    head = {"recorded": f"{today}: {source}", "series": dict(sorted(series.items()))}
    return (
        re.sub(r"\[\s+([^\]]*?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", json.dumps(head, indent=1))
        + "\n"
    )


def selectors() -> set[Selector]:
    """Returns the selectors of all rules."""
    return {selector for group in groups() for rule in group["rules"] for selector in parse(rule["expr"]).selectors}


def hour(series: Mapping[str, list[float]]) -> list[dict[str, str]]:
    """Returns promtool's input: an hour of each series."""
    return [{"series": name, "values": " ".join(map(_written, _hour(name, values)))} for name, values in series.items()]


def _hour(name: str, values: list[float]) -> Iterable[float]:
    metric = name.partition("{")[0]
    known = metrics().get(metric)
    counts = known is not None and known.kind in ("counter", "histogram")
    grown = values[-1] - values[0] if counts else 0.0
    for place in range(HOUR_SECONDS // EVERY_SECONDS + 1):
        rounds, number = divmod(place, len(values))
        at = place * EVERY_SECONDS if OF_DAY.fullmatch(metric) else 0
        yield values[number] + rounds * grown + at


def _written(value: float) -> str:
    return repr(value).removesuffix(".0")


def _chooses(selector: Selector, name: str, labels: Mapping[str, str]) -> bool:
    if selector.metric != name:
        return False
    for label, operator, value in selector.matchers:
        pattern = value if "~" in operator else re.escape(value)
        if bool(re.fullmatch(pattern, labels.get(label, ""))) == operator.startswith("!"):
            return False
    return True
