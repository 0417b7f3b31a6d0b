"""`enginehouse top` shows the same figures from a Prometheus and from the hosts' own pages."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from deploy.io import top
from deploy.io.prometheus import Row
from deploy.io.top import MARK, of_hosts, of_prometheus, pages_of, reading, row_of
from deploy.monitoring.top import FIGURES, samples, table
from deploy.planning.plan import Plan
from deploy.spec import Gateway, Monitor
from tests.monitoring.scraped import wrong_names
from tests.unit.test_balancing import EDGE, planned, serving

PLAN = planned(
    a=serving("10.0.0.11") | {"gateway": Gateway(ports=(8080,), keys=None)},
    b=serving("10.0.0.12"),
    edge={"balancer": EDGE},
    eyes={"monitor": Monitor(os="debian-12", address="10.0.0.9")},
)
BEFORE = 'enginehouse_gateway_tokens_total{model="m",kind="prompt"} 100\nnv_gpu_power_usage{gpu_uuid="G"} 310\n'
NOW = """# TYPE enginehouse_gateway_tokens_total counter
enginehouse_gateway_tokens_total{model="m",kind="prompt"} 160
enginehouse_gateway_tokens_total{model="m",kind="completion"} 40
enginehouse_gateway_tokens_total{model="m",kind="cached"} 50
nv_gpu_power_usage{gpu_uuid="G"} 320.5
nv_gpu_memory_used_bytes{gpu_uuid="G"} 2147483648
enginehouse_encoder_queued_tokens{model="minilm"} 7
enginehouse_watch_misses{server="main",model="minilm"} 0
# server main active 0f63ebc3
"""
SAID = f"{MARK}1\n{BEFORE}{MARK}2\n{NOW}"
WANTED = {"tokens_per_second": 50.0, "queued_tokens": 7.0, "gpu_used_mib": 2048.0, "watts": 320.5}


def text_of(renderable: object) -> str:
    """The text that a terminal gets."""
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def answered(query: str) -> list[Row]:
    """A Prometheus with a healthy host `a`, its model not ready, and one alert."""
    results: dict[str, list[Row]] = {
        'max by (host) (up{job="host"})': [({"host": "a"}, 1.0), ({"host": "b"}, 0.0), ({"host": "eyes"}, 1.0)],
        'up{job="triton"}': [({"instance": "a/main", "host": "a"}, 1.0)],
        'probe_success{job="probe"}': [({"instance": "a/main/minilm"}, 0.0), ({"instance": "edge/chat/minilm"}, 1.0)],
        "enginehouse_watch_release": [({"host": "a", "server": "main", "release": "0f63ebc3"}, 1.0)],
        'ALERTS{alertstate="firing"}': [
            ({"alertname": "ModelNotReady", "host": "a", "severity": "page", "instance": model}, 1.0)
            for model in ("bge", "nomic")
        ],
        "sum by (host) (DCGM_FI_DEV_POWER_USAGE)": [({"host": "a"}, 640.0)],
        "sum by (host) (nv_gpu_power_usage)": [({"host": "a"}, 1.0)],
    }
    return results.get(query, [])


def test_pages_of_a_host_give_its_figures_and_its_servers() -> None:
    row = row_of(PLAN.for_host("a"), pages_of(SAID))
    assert row.answers
    assert row.figures == WANTED
    assert {name: (str(server), server.release) for name, server in row.servers.items()} == {
        "main": ("1/1 ready", "0f63ebc3")
    }


def test_a_counter_that_was_begun_anew_is_no_negative_rate() -> None:
    tokens = FIGURES[0]
    after = samples('enginehouse_gateway_tokens_total{kind="prompt"} 3')
    assert tokens.of(after, samples(BEFORE), 2) == 0


def test_a_silent_host_is_shown_and_delays_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "_output", lambda ssh, _: SAID if ssh[-1] == "a" else None)
    look = of_hosts(PLAN, {"a": {}, "b": {}})
    assert [look.hosts[name].answers for name in ("a", "b")] == [True, False]
    assert "b  no answer" in text_of(table(look))
    assert look.to_json()["alerts"] is None


def test_prometheus_knows_which_models_are_ready_and_an_alert_of_two_of_them_is_named_once() -> None:
    look = of_prometheus(PLAN, answered, "Prometheus of eyes")
    assert look.alerts == (("a", "ModelNotReady", "page"),)
    assert {name: row.answers for name, row in look.hosts.items()} == {"a": True, "b": False, "edge": False}
    server = look.hosts["a"].servers["main"]
    assert (server.is_up, server.models, server.release) == (True, {"minilm": False}, "0f63ebc3")
    assert "ModelNotReady  a  (page)" in text_of(table(look))
    assert json.loads(json.dumps(look.to_json()))["hosts"]["a"]["figures"]["watts"] == 640.0


def test_dcgms_watts_count_before_tritons() -> None:
    assert of_prometheus(PLAN, answered, "").hosts["a"].figures["watts"] == 640.0


def test_every_metric_that_is_asked_for_exists() -> None:
    """Each metric is in a recorded scrape, or in its exporter's source; `host` is a label of our own targets."""
    for figure in FIGURES:
        for metric, _ in figure.metrics:
            wrong = wrong_names(figure.expression(metric))
            assert [line for line in wrong if "label host" not in line] == []


def test_top_reads_a_hosts_metrics_on_loopback() -> None:
    shell = reading(PLAN.for_host("a"))
    assert shell.count("http://127.0.0.1:8002/metrics") == shell.count("http://127.0.0.1:8080/metrics") == 2
    assert "triton@main" in shell
    assert "http" not in reading_of_nothing()


def reading_of_nothing() -> str:
    """The page of a host without servers, such as one that builds engines."""
    return reading(replace(PLAN.for_host("b"), servers=(), gateway=None))


def test_text_without_a_reading_counts_as_no_answer() -> None:
    answers: list[Any] = [None, "", "Permission denied", f"{MARK}1\n{BEFORE}"]
    assert [pages_of(answer) for answer in answers] == [None] * 4


def test_a_monitor_is_asked_and_without_one_the_hosts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = planned(a=serving("10.0.0.11"), edge={"balancer": EDGE})
    monkeypatch.setattr(top, "_output", lambda *_: SAID)
    assert top.source_of(hosts, {"a": {}})().source.startswith("the hosts themselves")
    nothing = '{"status": "success", "data": {"result": []}}'
    monkeypatch.setattr(top, "_output", lambda *_: nothing)
    data = {name: {} for name in ("a", "b", "edge", "eyes")}
    assert isinstance(PLAN, Plan)
    assert top.source_of(PLAN, data)().source == "Prometheus of eyes"
