"""The dashboards: every query parses and reads metrics that exist, and the JSON is valid for Grafana."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.panels import Dashboard, to_json
from tests.monitoring.promql import parse
from tests.monitoring.scraped import wrong_names

BY_UID = {dashboard.uid: dashboard for dashboard in DASHBOARDS}
for_each_dashboard = pytest.mark.parametrize("dashboard", BY_UID.values(), ids=BY_UID.keys())


def page(dashboard: Dashboard) -> dict[str, Any]:
    """Returns the dashboard in Grafana's form."""
    return dict(json.loads(to_json(dashboard)))


def queries(dashboard: Dashboard) -> Iterator[tuple[str, str, str]]:
    """Yields title, expression and legend of each query, with variables filled in like Grafana does."""
    for panel in page(dashboard)["panels"]:
        for target in panel["targets"]:
            filled = target["expr"].replace("$__rate_interval", "5m").replace("$per_hour", "2.5")
            yield panel["title"], re.sub(r"\$(instance|model)", ".+", filled), target["legendFormat"]


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool: python -m rehearsal requirements --install --tests"
)
def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expression}
        for number, (_, expression, _) in enumerate(query for page in DASHBOARDS for query in queries(page))
    ]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", "queries.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout


@for_each_dashboard
def test_every_metric_and_label_of_a_query_is_in_a_kept_scrape(dashboard: Dashboard) -> None:
    wrong = [f"{title}: {what}" for title, expression, _ in queries(dashboard) for what in wrong_names(expression)]
    assert wrong == []


@for_each_dashboard
def test_a_legend_uses_only_labels_that_the_query_keeps(dashboard: Dashboard) -> None:
    """A legend would show a dropped label as an empty text."""
    for title, expression, legend in queries(dashboard):
        named = set(re.findall(r"\{\{(\w+)\}\}", legend))
        kept = re.search(r"(?:sum|avg|count) by \(([^)]*)\)", expression)
        if kept:
            assert named <= {label.strip() for label in kept[1].split(",")} - {"le"}, title
        elif re.search(r"\b(sum|avg|count)\(", expression):
            assert not named, title


@for_each_dashboard
def test_variables_are_read_from_a_label_that_exists_and_are_used(dashboard: Dashboard) -> None:
    text = to_json(dashboard)
    for variable in dashboard.variables:
        assert f"${variable.name}" in text, variable.name
        if variable.metric:
            assert wrong_names(f'{variable.metric}{{{variable.name}=~".+"}}') == []


@for_each_dashboard
def test_the_page_is_as_grafana_wants_it(dashboard: Dashboard) -> None:
    """The page has a uid, a variable data source and a unit in each panel; panels cannot be edited and do not
    overlap."""
    made = page(dashboard)
    assert re.fullmatch(r"[a-z-]{5,40}", made["uid"]) and made["editable"] is False
    assert made["templating"]["list"][0]["type"] == "datasource"
    sources = [panel["datasource"] for panel in made["panels"]]
    sources += [target["datasource"] for panel in made["panels"] for target in panel["targets"]]
    assert all(source["uid"] == "${datasource}" for source in sources)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in made["panels"])
    assert all(panel["targets"] and panel["title"] for panel in made["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in made["panels"]]
    assert len(places) == len(set(places)) and all(x + 12 <= 24 for x, _ in places)


def test_rates_follow_the_displayed_time_range() -> None:
    """A fixed range misses samples when a month is shown."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for expression, _ in panel.queries:
                assert set(re.findall(r"\[([^\]]*)\]", expression)) <= {"$__rate_interval"}, panel.title


def test_no_price_is_built_in() -> None:
    (variable,) = BY_UID["enginehouse-cost"].variables
    assert (variable.metric, variable.default) == ("", "0")
    priced = [expression for _, expression, _ in queries(BY_UID["enginehouse-cost"]) if "2.5" in expression]
    assert len(priced) == 2 and all(parse(expression).selectors for expression in priced)
