"""A monitor of a fleet with an LLM beside Triton reads the LLM's page and has its alerts; without such an LLM
nothing changes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy.slices.monitor import MonitorSlice
from deploy.spec import Gateway
from roles.monitor.config import prometheus, rules
from tests.monitoring.test_rules import promtool
from tests.roles.monitor.plans import EYES, a_monitor
from tests.unit.samples import EMBEDDER, LLAMA, MACHINE, RERANKER, main
from tests.unit.test_balancing import planned

IMAGES = {"vllm": "vllm/vllm-openai:v0.26.0", "trtllm-serve": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"}
TESTS = """rule_files: [{file}]
tests:
- interval: 1m
  input_series:
  - series: '{series}{{instance="a/main"}}'
    values: '{values}'
  alert_rule_test:
  - {{eval_time: 60m, alertname: {alert}, exp_alerts: [{{exp_labels: {{severity: ticket, instance: a/main}}}}]}}
"""


def monitor_of(runtime: str = "vllm") -> MonitorSlice:
    """The monitor of a fleet whose one host has an LLM of this runtime."""
    beside = replace(LLAMA, replay=None, runtime=runtime, image=IMAGES[runtime])
    data = main(RERANKER, EMBEDDER, beside)
    data |= {"machine": MACHINE, "release": "26.07", "gateway": Gateway(keys=None), "peer_address": "10.0.0.11"}
    (mine,) = planned(a=data, eyes={"monitor": EYES}).monitors
    return mine


@pytest.mark.parametrize("runtime", IMAGES)
def test_the_page_of_an_llm_is_a_job_and_its_readiness_a_probe(runtime: str) -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load(prometheus(monitor_of(runtime)))["scrape_configs"]}
    assert "/llm/main" in str(jobs["llm"])
    assert "model/main/llama" in str(jobs["probe"])


def test_a_fleet_without_an_llm_beside_triton_has_no_job_and_rules_for_it() -> None:
    """Files of older monitors do not change."""
    assert "llm" not in [job["job_name"] for job in yaml.safe_load(prometheus(a_monitor()))["scrape_configs"]]
    assert "Llm" not in rules(a_monitor()) and "vllm:" not in rules(a_monitor())


@promtool
@pytest.mark.parametrize(
    ("series", "values", "alert"),
    [
        ("vllm:kv_cache_usage_perc", "0.99x60", "LlmCacheNearlyFull"),
        ("trtllm_kv_cache_utilization", "0.99x60", "LlmCacheNearlyFull"),
        ("vllm:num_requests_waiting", "3x60", "LlmRequestsWait"),
        ("trtllm_num_requests_waiting", "3x60", "LlmRequestsWait"),
    ],
)
def test_the_counters_of_both_programs_raise_the_same_alert(
    tmp_path: Path, series: str, values: str, alert: str
) -> None:
    """promtool evaluates the rendered rules, except summaries and remedies."""
    groups = yaml.safe_load(rules(monitor_of()))
    for rule in (rule for group in groups["groups"] for rule in group["rules"]):
        rule.pop("annotations", None)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(groups))
    (tmp_path / "test.yml").write_text(TESTS.format(file="rules.yml", series=series, values=values, alert=alert))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_of_an_llm_beside_triton_has_a_remedy() -> None:
    (group,) = [group for group in yaml.safe_load(rules(monitor_of()))["groups"] if group["name"].endswith("llms")]
    assert [rule["alert"] for rule in group["rules"]] == ["LlmLost", "LlmCacheNearlyFull", "LlmRequestsWait"]
    assert all(rule["annotations"]["remedy"] for rule in group["rules"])
