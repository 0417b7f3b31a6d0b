"""Weights of a host's servers: a claim, and a Job that fetches and verifies them as the host would."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deploy.exports.kubernetes.files import config_maps, volume
from deploy.exports.kubernetes.names import Manifest, digest, labels, manifest, object_name
from deploy.exports.kubernetes.pods import confined, host_program, image_of, mount, placed, pod_head, template
from deploy.exports.served import Served, ServedHost
from deploy.models.files import WEIGHTS

CREDENTIALS = "/run/credentials/enginehouse"
TOKEN_SECRET = "enginehouse-hub"
AUTHORITY = "hub-ca.crt"
SPARE_PERCENT = 15
"""Percent of the claim that is reserved for partial downloads, packages, and the file system's own use."""
KEPT_RELEASES = 2
"""Sets of weights that a claim has room for: those that serve, and those of the next plan."""
DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The claims' class and mode; an empty class is the cluster's default."""

    storage_class: str = ""
    access_mode: str = "ReadWriteOnce"


def job_name(host: ServedHost, label: str) -> str:
    """The name of a Job, with a digest of its content: a Job is immutable, so another content needs another name."""
    image = host.servers[0].slice.image.origin_reference
    return object_name("fetch", label, digest([dict(host.weights), wheels(host), image, host.authority]))


def wheels(host: ServedHost) -> list[dict[str, str]]:
    return list({wheel["sha256"]: wheel for server in host.servers for wheel in server.wheels}.values())


def claim(name: str, namespace: str, marks: dict[str, str], gib: int, storage: Storage) -> Manifest:
    """A claim of this many GiB."""
    spec: dict[str, Any] = {
        "accessModes": [storage.access_mode],
        **({"storageClassName": storage.storage_class} if storage.storage_class else {}),
        "resources": {"requests": {"storage": f"{gib}Gi"}},
    }
    return manifest("v1", "PersistentVolumeClaim", name, namespace, marks, spec=spec)


def staged(
    served: Served, host: ServedHost, label: str, namespace: str, programs: Sequence[dict[str, Any]], storage: Storage
) -> list[Manifest]:
    """Claim, settings of the fetches, and the Job."""
    marks = labels("fetch", label)
    texts = {path.removeprefix(f"{served.settings_path}/"): text for path, text in host.weights.items()}
    texts["pod.json"] = json.dumps({"wheels": wheels(host)}, indent=2) + "\n"
    texts |= {AUTHORITY: host.authority} if host.authority else {}
    settings, sources = config_maps(object_name("fetch", label), namespace, marks, texts)
    mib = sum(weights.size_mib for weights in host.slice.weights) * KEPT_RELEASES
    claimed = object_name("weights", label)
    return [
        claim(claimed, namespace, marks, mib * (100 + SPARE_PERCENT) // 100 // 1024 + 2, storage),
        *settings,
        _job(served, host, label, namespace, [*programs], sources, claimed),
    ]


def _job(
    served: Served,
    host: ServedHost,
    label: str,
    namespace: str,
    programs: list[dict[str, Any]],
    settings: list[dict[str, Any]],
    claimed: str,
) -> Manifest:
    server, marks = host.servers[0], labels("fetch", label)
    token = host.slice.hub.token
    container = {
        "name": "fetch",
        "image": image_of(server.triton, server.slice.image.origin_reference),
        "imagePullPolicy": "IfNotPresent",
        "command": host_program(served, "fetch", *host.weights),
        **({"env": [{"name": "CREDENTIALS_DIRECTORY", "value": CREDENTIALS}]} if token else {}),
        "securityContext": confined(),
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
        "volumeMounts": [
            mount("programs", served.programs_path),
            mount("settings", served.settings_path),
            mount("weights", WEIGHTS, writable=True),
            mount("tmp", "/tmp", writable=True),
            *([mount("token", CREDENTIALS)] if token else []),
        ],
    }
    secret = {"secretName": TOKEN_SECRET, "defaultMode": 0o440, "items": [{"key": "token", "path": "token"}]}
    pod = {
        **pod_head(server.triton.uid),
        # The Job runs on the nodes of the servers, because the claim may be a node's own disk.
        **placed(host),
        **({"imagePullSecrets": [{"name": "enginehouse-registry"}]} if host.slice.registry.key else {}),
        "restartPolicy": "OnFailure",
        "containers": [container],
        "volumes": [
            volume("programs", programs),
            volume("settings", settings),
            {"name": "weights", "persistentVolumeClaim": {"claimName": claimed}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}},
            *([{"name": "token", "secret": secret}] if token else []),
        ],
    }
    spec = {"backoffLimit": 6, "activeDeadlineSeconds": DAY_SECONDS, "template": template(host, marks, pod)}
    return manifest("batch/v1", "Job", job_name(host, label), namespace, marks, spec=spec)
