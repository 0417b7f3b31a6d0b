"""PodMonitors, rules and dashboards for a Prometheus operator, with the jobs and instances of a monitor host."""

from typing import Any

from deploy.exports.kubernetes.names import Manifest, manifest
from deploy.exports.served import Served
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.panels import to_json
from deploy.monitoring.rules import groups

MARKS = {"app.kubernetes.io/part-of": "enginehouse"}
HOST, SERVER = "__meta_kubernetes_pod_annotation_enginehouse_host", "__meta_kubernetes_pod_label_enginehouse_server"


def monitored(served: Served, namespace: str) -> list[Manifest]:
    """PodMonitors, rules and dashboards."""
    llms = {
        server.slice.standalone_llm[1].metrics_path
        for host in served.hosts
        for server in host.servers
        if server.slice.standalone_llm
    }
    monitors = [
        _pod_monitor("triton", "triton", [_endpoint("triton", "metrics", "/metrics", [HOST, SERVER])], namespace)
    ]
    monitors += [
        _pod_monitor(
            "llm", "triton", [_endpoint("llm", "llm", path, [HOST, SERVER]) for path in sorted(llms)], namespace
        )
    ] * bool(llms)
    ports = max((len(host.gateway.slice.ports) for host in served.hosts if host.gateway), default=0)
    if ports:
        endpoints = [_endpoint("gateway", f"http-{number}", "/metrics", [HOST]) for number in range(ports)]
        monitors.append(_pod_monitor("gateway", "gateway", endpoints, namespace))
    rules = groups(served.branches, has_llms=bool(llms))
    rule = manifest(
        "monitoring.coreos.com/v1", "PrometheusRule", "enginehouse", namespace, MARKS, spec={"groups": rules}
    )
    return [*monitors, rule, *_dashboards(namespace)]


def _pod_monitor(name: str, app: str, endpoints: list[dict[str, Any]], namespace: str) -> Manifest:
    spec = {"selector": {"matchLabels": {"app.kubernetes.io/name": app} | MARKS}, "podMetricsEndpoints": endpoints}
    return manifest("monitoring.coreos.com/v1", "PodMonitor", name, namespace, MARKS, spec=spec)


def _endpoint(job: str, port: str, path: str, instance: list[str]) -> dict[str, Any]:
    """A PodMonitor's endpoint; its series get the labels of alerts and dashboards: `job`, and `instance` as HOST or
    HOST/SERVER."""
    return {
        "port": port,
        "path": path,
        "relabelings": [
            {"targetLabel": "job", "replacement": job},
            {"sourceLabels": instance, "separator": "/", "targetLabel": "instance"},
        ],
    }


def _dashboards(namespace: str) -> list[Manifest]:
    """The dashboards as ConfigMaps, under the label that Grafana's sidecar looks for."""
    marks = MARKS | {"grafana_dashboard": "1"}
    return [
        manifest(
            "v1",
            "ConfigMap",
            f"dashboard-{dashboard.uid}".replace("_", "-"),
            namespace,
            marks,
            data={f"{dashboard.uid}.json": to_json(dashboard)},
        )
        for dashboard in DASHBOARDS
    ]
