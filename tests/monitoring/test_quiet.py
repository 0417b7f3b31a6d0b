"""An hour of a healthy fleet, made of recorded scrapes: no rule fires in it, except a deliberate one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.monitoring.rules import groups
from tests.monitoring.quiet import EVERY_SECONDS, QUIET, hour

RECORDED = json.loads(QUIET.read_text())
MINUTES = (5, 20, 40, 60)
pytestmark = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool: python -m rehearsal requirements --install --tests"
)


def fired(series: dict[str, list[float]], folder: Path) -> str:
    """Returns promtool's output if an alert fires in an hour of these series; empty if none does."""
    (folder / "rules.yml").write_text(json.dumps({"groups": groups(["580"])}))
    alerts = [rule["alert"] for group in groups(["580"]) for rule in group["rules"] if "alert" in rule]
    silent = [
        {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []} for minute in MINUTES for alert in alerts
    ]
    scene = {"interval": f"{EVERY_SECONDS}s", "input_series": hour(series), "alert_rule_test": silent}
    test_file = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [scene]}
    (folder / "tests.yml").write_text(json.dumps(test_file))
    ran = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=folder, capture_output=True, text=True)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def test_the_scrapes_are_of_every_job_and_say_where_they_are_from() -> None:
    assert {f'job="{job}"' for job in ("dcgm", "gateway", "haproxy", "host", "probe", "triton")} <= {
        word for name in RECORDED["series"] for word in name.partition("{")[2].rstrip("}").split(",")
    }
    assert len(RECORDED["recorded"]) > 20


def test_nothing_fires_in_an_hour_of_recorded_scrapes(tmp_path: Path) -> None:
    assert fired(RECORDED["series"], tmp_path) == ""


def test_the_same_hour_without_the_gateway_is_not_quiet(tmp_path: Path) -> None:
    lost = {
        name: [0.0] if name.startswith("up{") and '"gateway"' in name else samples
        for name, samples in RECORDED["series"].items()
    }
    assert "GatewayLost" in fired(lost, tmp_path)
