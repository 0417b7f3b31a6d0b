"""The alert rules: each fires on its fault and on nothing near it, names its remedy, and reads metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.eyes.causes import CAUSES, ends
from deploy.eyes.levels import BURNS, LEVELS, recordings
from deploy.eyes.rules import groups, rule_file
from tests.eyes.cases import CASES
from tests.eyes.promql import Selector, parse
from tests.eyes.scraped import OF_TARGETS, SCRAPES, metrics

ROOT = Path(__file__).parents[2]
GROUPS = groups(["580"])
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in RULES if "record" in rule}
promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool: python -m rehearsal requirements --install --tests"
)


def group_of(alert: str) -> str:
    """The group that the alert stands in."""
    return next(str(group["name"]) for group in GROUPS if any(rule.get("alert") == alert for rule in group["rules"]))


def written(text: str, labels: dict[str, str], value: str) -> str:
    """An annotation as Prometheus fills it in; a label that the series lacks fails."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda hole: labels[hole[1]], text).replace(
        "{{ $value | humanizePercentage }}", value
    )


def expected(name: str) -> list[dict[str, Any]]:
    """The alert as promtool is to see it fire: once, with its labels and words."""
    case, rule = CASES[name], ALERTS[name]
    annotations = {key: written(text, case.fires, case.value) for key, text in rule["annotations"].items()}
    return [{"exp_labels": rule["labels"] | case.fires, "exp_annotations": annotations}]


def scene(every: int, names: list[str], series: dict[str, str], fires: bool) -> dict[str, Any]:
    """promtool's test of these alerts on these series, together."""
    return {
        "interval": f"{every}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": CASES[name].at, "alertname": name, "exp_alerts": expected(name) if fires else []}
            for name in names
        ],
    }


def scenes(every: int, names: list[str]) -> list[dict[str, Any]]:
    """All faults at once; all that is near them at once; and what else is near one, by itself."""
    firing = {series: values for name in names for series, values in CASES[name].firing.items()}
    silent = {series: values for name in names for series, values in CASES[name].silent.items()}
    more = [scene(every, [name], series, False) for name in names for series in CASES[name].also]
    return [scene(every, names, firing, True), scene(every, names, silent, False), *more]


@promtool
@pytest.mark.parametrize(("group", "every"), sorted({(group_of(name), case.every) for name, case in CASES.items()}))
def test_each_alert_fires_on_its_fault_and_on_nothing_near_it(group: str, every: int, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [each for each in GROUPS if each["name"] == group]}))
    names = [name for name, case in CASES.items() if (group_of(name), case.every) == (group, every)]
    told = {"rule_files": ["rules.yml"], "evaluation_interval": f"{every}m", "tests": scenes(every, names)}
    (tmp_path / "tests.yml").write_text(json.dumps(told))
    ran = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:6000]


@promtool
def test_promtool_takes_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rule_file(["580", "590"]))
    ran = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_has_its_cases() -> None:
    assert set(CASES) == set(ALERTS) - {"Driver580Ends"}


def selectors() -> list[tuple[str, Selector, frozenset[str]]]:
    """Every selector of the rules, with its rule's name and the labels that the rule groups by."""
    found = []
    for rule in RULES:
        parsed = parse(rule["expr"])
        found += [(rule.get("alert") or rule["record"], each, parsed.labels) for each in parsed.selectors]
    return found


def test_every_metric_and_label_of_a_rule_is_in_a_kept_scrape() -> None:
    wrong = []
    for rule, selector, joined in selectors():
        if selector.metric in RECORDED:
            continue
        metric = metrics().get(selector.metric)
        if metric is None:
            wrong.append(f"{rule}: no scrape has {selector.metric}")
            continue
        known = metric.labels | OF_TARGETS
        wrong += [f"{rule}: {selector.metric} has no label {label}" for label in joined - known]
        for label, operator, value in selector.matchers:
            if label not in known:
                wrong.append(f"{rule}: {selector.metric} has no label {label}")
            elif label not in OF_TARGETS and operator in ("=", "=~"):
                pattern = re.compile(value if operator == "=~" else re.escape(value))
                values = metric.values(label) | UNSEEN.get((selector.metric, label), set())
                if not any(pattern.fullmatch(each) for each in values):
                    wrong.append(f"{rule}: no {selector.metric} was seen with {label}{operator}{value}")
    assert wrong == []


UNSEEN = {("enginehouse_gpu_xids", "remedy"): {"reset", "vendor", "unknown"}}
"""Values that one scrape cannot hold: files/host/gpu_state.py writes the remedies of deploy/catalog/xids.py."""


def test_the_series_of_the_cases_have_the_labels_that_were_scraped() -> None:
    for name, case in CASES.items():
        for series in (series for given in (case.firing, case.silent, *case.also) for series in given):
            (selector,) = parse(series).selectors
            labels = {label for label, _, _ in selector.matchers} - OF_TARGETS
            assert labels in [set(known) for known in metrics()[selector.metric].series], (name, series)


def test_rates_are_taken_of_counters_only() -> None:
    """`rate` of a gauge, or of dcgm-exporter's windowed counts, says nothing."""
    for rule in RULES:
        for name in re.findall(r"(?:rate|increase)\(([a-z_A-Z:]+)", rule["expr"]):
            assert metrics()[name].kind in ("counter", "histogram"), (rule, name)
            assert not name.startswith("DCGM_EXP_")


def test_every_scrape_says_where_its_names_are_from() -> None:
    for path in SCRAPES.glob("*.prom"):
        head, job = path.read_text().splitlines()[:2]
        assert re.match(r"# (recorded \d{4}-\d\d-\d\d|read \d{4}-\d\d-\d\d, not recorded): .{20,}", head), path
        assert job.startswith("# job: "), path


def test_every_alert_names_something_to_type_that_exists() -> None:
    verbs = {path.name for path in ROOT.glob("*.py")}
    commands = set(re.findall(r'^    "(\w+)",$', (ROOT / "deploy/__main__.py").read_text(), re.MULTILINE))
    for name, rule in ALERTS.items():
        remedy = rule["annotations"]["remedy"]
        assert len(remedy) > 10, name
        assert set(re.findall(r"pyinfra INVENTORY (\w+\.py)", remedy)) <= verbs, name
        assert set(re.findall(r"enginehouse (\w+) INVENTORY", remedy)) <= commands | {"ask", "plan", "drift"}, name


def test_a_budget_can_be_spent_at_every_speed_that_is_watched() -> None:
    for level in LEVELS:
        assert all(burn.factor * level.budget < 1 for burn in BURNS), level.name


def test_recorded_expressions_stand_before_what_reads_them() -> None:
    for group in groups():
        names = [rule.get("record") for rule in group["rules"]]
        for place, rule in enumerate(group["rules"]):
            for selector in parse(rule["expr"]).selectors:
                assert selector.metric not in names or names.index(selector.metric) < place


def test_a_driver_branch_is_told_of_ninety_days_before_its_end() -> None:
    (alert,) = ends(["590"])
    assert (alert.name, alert.expression) == ("Driver590Ends", "vector(time()) > 1790899200")


def test_no_rule_reads_the_number_of_the_last_xid() -> None:
    """It never goes back to 0: such a rule fires for ever."""
    assert not any("DCGM_FI_DEV_XID_ERRORS" in rule["expr"] for rule in RULES)


def test_names_are_unique() -> None:
    names = [alert.name for alert in CAUSES] + [each.name for level in LEVELS for each in recordings(level)]
    assert len(names) == len(set(names))
    assert yaml.safe_load(rule_file())["groups"]
