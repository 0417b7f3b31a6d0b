"""The alert rules: each fires on its fault and on no similar series, names its remedy, and reads existing metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.monitoring.alert import JOBS
from deploy.monitoring.causes import CAUSES, ends
from deploy.monitoring.levels import BURNS, LEVELS, recordings
from deploy.monitoring.rules import groups, rule_file
from encoders.metrics import COUNTERS, GAUGES
from gateway.metrics import Metrics
from host import certificates, gpu_state, watch
from tests.monitoring.cases import CASES
from tests.monitoring.promql import parse
from tests.monitoring.scraped import OF_TARGETS, SCRAPES, metrics, samples, wrong_names

ROOT = Path(__file__).parents[2]
GROUPS = groups(["580"])
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool: python -m rehearsal requirements --install --tests"
)


def group_of(alert: str) -> str:
    """Returns the alert's group."""
    return next(str(group["name"]) for group in GROUPS if any(rule.get("alert") == alert for rule in group["rules"]))


def written(text: str, labels: dict[str, str], value: str) -> str:
    """Returns an annotation filled in like Prometheus does; fails on a label that the series lacks."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda hole: labels[hole[1]], text).replace(
        "{{ $value | humanizePercentage }}", value
    )


def expected(name: str) -> list[dict[str, Any]]:
    """Returns promtool's expectation that the alert fires once, with its labels and text."""
    return as_told(name, CASES[name].fires)


def as_told(name: str, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Returns the alert with these labels, once, and its text."""
    case, rule = CASES[name], ALERTS[name]
    annotations = {key: written(text, labels, case.value) for key, text in rule["annotations"].items()}
    return [{"exp_labels": rule["labels"] | labels, "exp_annotations": annotations}]


def scene(every: int, names: list[str], series: dict[str, str], fires: bool) -> dict[str, Any]:
    """Returns promtool's test of these alerts on these series together."""
    return {
        "interval": f"{every}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": CASES[name].at, "alertname": name, "exp_alerts": expected(name) if fires else []}
            for name in names
        ],
    }


def scenes(every: int, names: list[str]) -> list[dict[str, Any]]:
    """Returns tests of all faults at once, of all similar silent series at once, and of further series separately."""
    firing = {series: values for name in names for series, values in CASES[name].firing.items()}
    silent = {series: values for name in names for series, values in CASES[name].silent.items()}
    more = [scene(every, [name], series, False) for name in names for series in CASES[name].also]
    for name, (series, labels) in ((name, otherwise) for name in names if (otherwise := CASES[name].otherwise)):
        more.append(scene(every, [name], series, True))
        more[-1]["alert_rule_test"][0]["exp_alerts"] = as_told(name, CASES[name].fires | labels)
    return [scene(every, names, firing, True), scene(every, names, silent, False), *more]


@promtool
@pytest.mark.parametrize(("group", "every"), sorted({(group_of(name), case.every) for name, case in CASES.items()}))
def test_each_alert_fires_on_its_fault_and_on_nothing_near_it(group: str, every: int, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(
        json.dumps({"groups": [candidate for candidate in GROUPS if candidate["name"] == group]})
    )
    names = [name for name, case in CASES.items() if (group_of(name), case.every) == (group, every)]
    test_file = {"rule_files": ["rules.yml"], "evaluation_interval": f"{every}m", "tests": scenes(every, names)}
    (tmp_path / "tests.yml").write_text(json.dumps(test_file))
    ran = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:6000]


@promtool
def test_promtool_takes_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rule_file(["580", "590"]))
    ran = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_has_its_cases() -> None:
    assert set(CASES) == set(ALERTS) - {"Driver580Ends"}


def test_every_metric_and_label_of_a_rule_is_in_a_kept_scrape() -> None:
    assert [f"{rule.get('alert')}: {what}" for rule in RULES for what in wrong_names(rule["expr"])] == []


def test_a_misspelt_name_label_or_value_is_found() -> None:
    assert wrong_names("nv_inference_requests_success") == ["no scrape has nv_inference_requests_success"]
    assert wrong_names("sum by (modle) (nv_inference_count)") == ["nv_inference_count has no label modle"]
    assert wrong_names('haproxy_server_status{state="down"} == 1') == [
        "no haproxy_server_status was seen with state=down"
    ]


def test_our_own_metrics_have_the_scraped_names() -> None:
    """A metric renamed in the code changes the rules only after a new recording."""
    gateway = Metrics()
    for counter in (gateway.requests, gateway.tokens, gateway.running, gateway.broken):
        counter.add(tuple("x" for _ in counter._labels))
    for histogram in (gateway.first, gateway.gaps, gateway.queued):
        histogram.observe(("x",), 1)
    gateway.seconds.observe(("x", "x"), 1)
    seen = {"models": {"x": {"misses": 0, "misses_total": 0, "slow": 0, "answer_seconds": 0.2}}, "restarts_total": 0}
    for page, start in (
        (gateway.page(), "enginehouse_gateway_"),
        (watch.metrics("main", seen), "enginehouse_watch_"),
    ):
        made = {name: set(labels) for name, _, labels in samples(page.splitlines())}
        assert made == {name: metric.labels for name, metric in metrics().items() if name.startswith(start)}
    encoders = {f"enginehouse_encoder_{name}" for name in (COUNTERS | GAUGES)}
    assert encoders == {name for name in metrics() if name.startswith("enginehouse_encoder_")}
    assert {certificates.NAME} == {name for name in metrics() if name.startswith("enginehouse_certificate_")}
    cards = {f"enginehouse_gpu_{name}" for name, _, _ in gpu_state.METRICS}
    assert cards == {name for name in metrics() if name.startswith("enginehouse_gpu_")} - {
        "enginehouse_gpu_answers",
        "enginehouse_gpu_xids",
    }


def test_the_series_of_the_cases_have_the_labels_that_were_scraped() -> None:
    for name, case in CASES.items():
        others = [case.otherwise[0]] if case.otherwise else []
        for series in (series for inputs in (case.firing, case.silent, *case.also, *others) for series in inputs):
            (selector,) = parse(series).selectors
            labels = {label for label, _, _ in selector.matchers} - OF_TARGETS
            assert labels in [set(known) for known in metrics()[selector.metric].series], (name, series)


def test_rates_are_taken_of_counters_only() -> None:
    """`rate` of a gauge, or of dcgm-exporter's windowed counts, has no meaning."""
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
    for name, rule in ALERTS.items():
        remedy = rule["annotations"]["remedy"]
        assert len(remedy) > 10, name
        assert set(re.findall(r"pyinfra INVENTORY (\w+\.py)", remedy)) <= verbs, name
        assert set(re.findall(r"enginehouse (\w+) INVENTORY", remedy)) <= set(enginehouse.commands), name


def test_a_budget_can_be_spent_at_every_speed_that_is_watched() -> None:
    for level in LEVELS:
        assert all(burn.factor * level.budget < 1 for burn in BURNS), level.name


def test_recording_rules_precede_the_rules_that_read_them() -> None:
    for group in groups():
        names = [rule.get("record") for rule in group["rules"]]
        for place, rule in enumerate(group["rules"]):
            for selector in parse(rule["expr"]).selectors:
                assert selector.metric not in names or names.index(selector.metric) < place


def test_a_driver_branch_alerts_ninety_days_before_its_end() -> None:
    (alert,) = ends(["590"])
    assert (alert.name, alert.expression) == ("Driver590Ends", "vector(time()) > 1790899200")


def test_no_rule_reads_the_number_of_the_last_xid() -> None:
    """The number never returns to 0, so that such a rule would fire forever."""
    assert not any("DCGM_FI_DEV_XID_ERRORS" in rule["expr"] for rule in RULES)


def test_names_are_unique() -> None:
    names = [alert.name for alert in CAUSES] + [recording.name for level in LEVELS for recording in recordings(level)]
    assert len(names) == len(set(names))
    assert yaml.safe_load(rule_file())["groups"]


def test_written_rules_name_the_inventory_and_its_drivers_end_of_life(tmp_path: Path) -> None:
    inventory = str(ROOT / "inventories/h100.py")
    done = CliRunner().invoke(enginehouse, ["monitoring", inventory, str(tmp_path / "new")])
    assert (done.exit_code, [job for job in JOBS if f"\n  {job} " not in done.output]) == (0, [])
    pages = [f"enginehouse-{name}.json" for name in ("cost", "fleet", "host", "model")]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [*pages, "enginehouse.rules.yml"]
    text = (tmp_path / "new/enginehouse.rules.yml").read_text()
    assert f"pyinfra {inventory} deploy.py" in text and "INVENTORY" not in text
    assert "Driver580Ends" in text
