"""A monitor's slice as the files of Prometheus, Alertmanager and blackbox-exporter. Pure: same slice, same bytes."""

from collections.abc import Iterable
from typing import Any

import yaml

from deploy.monitoring.alert import JOBS, LLM_JOB
from deploy.monitoring.rules import HEAD, rule_file
from deploy.slices.monitor import MonitorSlice, TargetSlice
from deploy.topology.monitors import in_address
from roles.monitor.defaults import RULES

PROBE_SECONDS = 5
NO_RECEIVERS = "receivers:\n- name: page\n- name: ticket\n"
"""Receivers without an address: Alertmanager only keeps and shows its alerts."""


def prometheus(mine: MonitorSlice) -> str:
    """Prometheus' configuration: targets with their names, and the address for alerts."""
    jobs = {job: [target for target in mine.targets if target.job == job] for job in (*JOBS, LLM_JOB)}
    alertmanager = in_address(mine.listen, mine.alertmanager_port)
    return _yaml(
        {
            "global": {
                "scrape_interval": f"{mine.scrape_seconds}s",
                "scrape_timeout": f"{min(mine.scrape_seconds, 10)}s",
                "evaluation_interval": f"{mine.scrape_seconds}s",
            },
            "rule_files": [RULES],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
            "scrape_configs": [_job(job, targets) for job, targets in jobs.items() if targets],
        }
    )


def rules(mine: MonitorSlice) -> str:
    return rule_file(mine.branches, has_llms=any(target.job == LLM_JOB for target in mine.targets))


def alerts() -> str:
    return _yaml(
        {
            "route": {
                "receiver": "ticket",
                "group_by": ["alertname", "host", "model"],
                "group_wait": "30s",
                "group_interval": "5m",
                "repeat_interval": "24h",
                "routes": [{"matchers": ['severity="page"'], "receiver": "page", "repeat_interval": "2h"}],
            },
            # A lost host raises one alert, which suppresses the alerts on the host's targets.
            "inhibit_rules": [
                {
                    "source_matchers": ['alertname="HostLost"'],
                    "target_matchers": ['alertname=~".+Lost|ModelNotReady"', 'alertname!="HostLost"'],
                    "equal": ["host"],
                }
            ],
        }
    )


def probes() -> str:
    """The only module of blackbox-exporter's probes."""
    http = {
        "method": "GET",
        "preferred_ip_protocol": "ip4",
        # 401 is the answer of a balancer that requires keys or certificates; models never answer 401.
        "valid_status_codes": [200, 401],
        # Probes use addresses, which certificates do not name. The certificate's end is read without verification.
        "tls_config": {"insecure_skip_verify": True},
    }
    return _yaml({"modules": {"ready": {"prober": "http", "timeout": f"{PROBE_SECONDS}s", "http": http}}})


def _job(job: str, targets: Iterable[TargetSlice]) -> dict[str, Any]:
    # A page's own labels do not replace the target's: `instance` and `host` are names of the inventory.
    return {"job_name": job, "static_configs": [_target(target) for target in targets]}


def _target(target: TargetSlice) -> dict[str, Any]:
    labels = {"__metrics_path__": target.path, "instance": target.instance, "host": target.host}
    if target.probe:
        labels |= {"__param_module": "ready", "__param_target": target.probe}
    if target.port:
        labels["port"] = str(target.port)
    return {"targets": [target.address], "labels": labels}


def _yaml(content: object) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, width=1_000)
    return HEAD + text
