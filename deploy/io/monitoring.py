"""The files of `enginehouse monitoring`: alert rules and dashboards of a plan, in a folder."""

from collections.abc import Iterator
from pathlib import Path

from deploy.catalog.drivers import DRIVER_BRANCHES
from deploy.monitoring.alert import JOBS
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.panels import to_json
from deploy.monitoring.rules import rule_file
from deploy.planning.plan import Plan

WHO = {
    "gateway": "the gateway's /metrics; instance: the host's name",
    "haproxy": "each balancer's /metrics; instance: its name",
    "triton": "each server's /metrics; instance: HOST/SERVER",
    "host": "node-exporter with --collector.systemd, --collector.systemd.enable-restarts-metrics and "
    "--collector.textfile.directory=/var/lib/enginehouse/metrics; instance: the host's name",
    "dcgm": "dcgm-exporter; instance: the host's name",
    "probe": "blackbox-exporter; instance: HOST/SERVER/MODEL, or BALANCER/POOL/MODEL",
}


def written(plan: Plan, inventory: str, folder: Path) -> Iterator[Path]:
    """Each file after its writing: the rules, whose remedies name this inventory, and a file for each dashboard."""
    branches = {mine.driver.branch for mine in plan.slices} & DRIVER_BRANCHES.keys()
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"enginehouse.rules.yml": rule_file(branches).replace("INVENTORY", inventory)}
    texts |= {f"{dashboard.uid}.json": to_json(dashboard) for dashboard in DASHBOARDS}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        yield folder / name


def jobs() -> list[str]:
    return [f"  {job:8} {WHO[job]}" for job in JOBS]
