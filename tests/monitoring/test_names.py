"""The monitoring page lists every metric that a rule, a panel or `enginehouse top` reads, and where it was seen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.rules import groups
from deploy.monitoring.top import FIGURES
from roles.exporters.counters import COUNTERS
from tests.monitoring.live.strikes import STRIKES
from tests.monitoring.promql import parse
from tests.monitoring.scraped import SCRAPES, metrics, samples

PAGE = Path(__file__).parents[2] / "deploy/monitoring/README.md"
MARK = "<!-- names -->"
OF_PROMETHEUS = {"up", "ALERTS"}


def read() -> set[str]:
    """Returns the names of metrics that are read, except Prometheus' own."""
    rules = [rule for group in groups(["580"]) for rule in group["rules"]]
    expressions = [rule["expr"] for rule in rules]
    queries = [query for board in DASHBOARDS for panel in board.panels for query, _ in panel.queries]
    expressions += [query.replace("$per_hour", "2") for query in queries]
    names = {selector.metric for text in expressions for selector in parse(text).selectors}
    names |= {metric for figure in FIGURES for metric, _ in figure.metrics}
    return names - OF_PROMETHEUS - {rule.get("record") for rule in rules}


def rows() -> Iterator[str]:
    """Yields a row for each recording with metrics that are read."""
    for path in sorted(SCRAPES.glob("*.prom")):
        head, _job, *lines = path.read_text().splitlines()
        how, _, source = head.removeprefix("# ").partition(": ")
        if names := sorted({name for name, _, _ in samples(lines)} & read()):
            yield f"| {how} | {source} | {', '.join(f'`{name}`' for name in names)} |"


def test_the_page_names_each_metric_with_its_recording() -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(f"{MARK}\n")
    _, _, after = rest.partition(f"{MARK}\n")
    head = "| when | where | names that are read |\n| --- | --- | --- |\n"
    page = f"{before}{MARK}\n\n{head}" + "".join(f"{row}\n" for row in rows()) + f"\n{MARK}\n{after}"
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page
    assert [name for name in sorted(read()) if f"`{name}`" not in page] == []


def test_the_page_tells_of_each_fault_that_strikes() -> None:
    rows = [(strike.host, strike.alert) for strike in STRIKES]
    listed = re.findall(r"^\| [^|]+ \| (\w+) \| `(\w+)`.* \|$", PAGE.read_text("utf-8"), flags=re.M)
    assert listed == rows


def test_every_configured_counter_is_in_dcgm_exporters_list() -> None:
    assert [name for name, _, _ in COUNTERS if name not in metrics()] == []
    assert {name for name in read() if name.startswith("DCGM_")} <= {name for name, _, _ in COUNTERS}
