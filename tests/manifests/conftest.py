"""Exports of the shipped inventories, written by the project's own Python; an API server that only checks kinds."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
INVENTORIES = ("h100", "fleet", "mig", "from_ansible")
KINDS = {
    "v1": {"ConfigMap": "configmaps", "Service": "services", "PersistentVolumeClaim": "persistentvolumeclaims"},
    "apps/v1": {"Deployment": "deployments"},
    "batch/v1": {"Job": "jobs"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "monitoring.coreos.com/v1": {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"},
}

if importlib.util.find_spec("kubernetes_validate") is None:  # the project's own environment judges no manifests
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the folder of each export, by its inventory."""
    folders = {name: tmp_path_factory.mktemp("manifests") / name for name in INVENTORIES}
    for name, folder in folders.items():
        words = ["-m", "deploy", "export", "kubernetes", f"inventories/{name}.py", "-o", str(folder)]
        subprocess.run([os.environ["ENGINEHOUSE_PYTHON"], *words], cwd=ROOT, check=True)
    return folders


class Discovery(BaseHTTPRequestHandler):
    """Answers kubectl's requests before it reads a manifest: groups, and the kinds of each."""

    def do_GET(self) -> None:
        """Answers a discovery path with its list, and other paths with 404."""
        content = discovery(self.path.partition("?")[0].strip("/"))
        body = json.dumps(content or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}).encode()
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes no line."""


def discovery(path: str) -> dict[str, Any]:
    """Returns the answer to a path of discovery; empty for another path."""
    if path == "api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "apis":
        groups = [version for version in KINDS if "/" in version]
        versions = [{"groupVersion": version, "version": version.split("/")[1]} for version in groups]
        rows = zip(groups, versions, strict=True)
        named = [{"name": group.split("/")[0], "versions": [row], "preferredVersion": row} for group, row in rows]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
    version = path.removeprefix("apis/").removeprefix("api/")
    if version not in KINDS:
        return {}
    kinds = KINDS[version] | ({"Namespace": "namespaces"} if version == "v1" else {})
    resources = [
        {"name": name, "singularName": "", "namespaced": kind != "Namespace", "kind": kind, "verbs": ["create", "get"]}
        for kind, name in kinds.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


@pytest.fixture(scope="session")
def api_server() -> Iterator[str]:
    """Yields the API server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Discovery) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
