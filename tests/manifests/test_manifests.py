"""Manifests of the shipped inventories, checked by kubernetes-validate, kubectl and checkov."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.manifests.conftest import INVENTORIES

VERSIONS = ("1.29", "1.33", "1.37")
"""The oldest with sidecars, one between, and the newest that the package knows."""
BIN = Path(sys.executable).parent
ACCEPTED = {
    "CKV_K8S_11": "no limit on CPU: a host's start line has none, and throttled threads cost latency",
    "CKV_K8S_13": "no limit on memory: a host's start line has none; the page cache of weights would count",
    "CKV_K8S_14": "the tag of the gateway's image is the operator's",
    "CKV_K8S_15": "an image by digest, or one that the node has, is not pulled again",
    "CKV_K8S_43": "inventories/h100.py leaves the digest to `enginehouse pin`",
}


def kubectl(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs kubectl without any configuration of this machine."""
    variables = {**os.environ, "KUBECONFIG": "/dev/null", **environment}
    return subprocess.run([BIN / "kubectl", *words], capture_output=True, text=True, env=variables, check=False)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("inventory", INVENTORIES)
def test_every_object_is_of_its_schema(exports: dict[str, Path], inventory: str, version: str) -> None:
    """Refuses fields that this version of Kubernetes does not have; kinds of operators have no schema."""
    count = 0
    for path in exports[inventory].rglob("*.yaml"):
        for item in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if item["apiVersion"].startswith(("kustomize.", "monitoring.")):
                continue
            kubernetes_validate.validate(item, version, strict=True)
            count += 1
    assert count > 8


@pytest.mark.parametrize("folder", ["", "stage", "serve", "monitoring"])
@pytest.mark.parametrize("inventory", INVENTORIES)
def test_kubectl_builds_and_creates_every_folder(
    exports: dict[str, Path], api_server: str, inventory: str, folder: str
) -> None:
    """kubectl uses its own kustomize and `--dry-run=client`; the API server has the kinds, and no objects."""
    path = str(exports[inventory] / folder)
    built = kubectl("kustomize", path)
    assert built.returncode == 0, built.stderr
    words = ["create", "--dry-run=client", "--validate=false", "-o", "name", "-k", path]
    created = kubectl("--server", api_server, *words)
    assert created.returncode == 0, created.stderr
    objects = [item for item in yaml.load_all(built.stdout, yaml.CSafeLoader) if item]
    assert len(created.stdout.splitlines()) == len(objects)


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_checkov_has_no_finding_but_the_accepted(exports: dict[str, Path], inventory: str) -> None:
    """Each accepted rule has its reason in the table above."""
    words = ["-d", str(exports[inventory]), "--framework", "kubernetes", "--skip-download", "--quiet", "-o", "json"]
    ran = subprocess.run([sys.executable, BIN / "checkov", *words], capture_output=True, text=True, check=False)
    report = json.loads(ran.stdout)
    findings = {(item["check_id"], item["resource"]) for item in report["results"]["failed_checks"]}
    assert report["summary"]["passed"] > 100
    assert {finding for finding in findings if finding[0] not in ACCEPTED} == set()
