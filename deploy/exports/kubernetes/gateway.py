"""The gateway of a host as a Deployment: its settings with the Services' addresses, and a container for each process.

The image is made of the Containerfile beside the manifests: the packages of the lock and the programs, at the paths
that the host's unit starts them from.
"""

import json
from collections.abc import Mapping
from typing import Any

from deploy.exports.kubernetes.names import Manifest, labels, manifest, object_name
from deploy.exports.kubernetes.pods import confined, mount, pod_head, template
from deploy.exports.kubernetes.weights import Storage, claim
from deploy.exports.served import ServedGateway, ServedHost
from deploy.models.files import WEIGHTS

IMAGE = "enginehouse-gateway"
PLACEHOLDER = f"registry.example.internal/{IMAGE}:TAG"
UID = 61141
"""User id of the gateway's containers: the next id after Triton's. On a host it is the system user
`enginehouse-gateway`."""
KEYS_SECRET = "enginehouse-gateway"
SHARED, STATE = "/run/enginehouse-gateway", "/var/lib/enginehouse-gateway"
STATE_GIB = 2
NOTICE_SECONDS = 5
"""Seconds before the stop signal, in which Services stop sending requests to the Pod."""
STOP_MARGIN_SECONDS = 15
"""Seconds after the drain until the unit is killed, as in its TimeoutStopSec."""
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
START_PERIOD_SECONDS, START_TRIES = 5, 36
"""Seconds between startup probes, and their number: together the unit's TimeoutStartSec, 180 s."""


def settings_of(gateway: ServedGateway, addresses: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """The host's settings for a Pod; it listens on all addresses and reaches servers by the names of their Services.

    Servers of other hosts are reached in the same way: between Pods, a network policy replaces mutual TLS.
    """
    kept = {key: value for key, value in gateway.settings.items() if key != "mutual"}
    servers = {
        name: {key: entry[key] for key in ("runtime", "version") if key in entry} | addresses[name]
        for name, entry in gateway.settings["servers"].items()
    }
    return kept | {"listen": gateway.settings["listen"] | {"address": "0.0.0.0"}, "servers": servers}


def deployed(
    host: ServedHost,
    gateway: ServedGateway,
    label: str,
    namespace: str,
    addresses: Mapping[str, dict[str, str]],
    storage: Storage,
) -> list[Manifest]:
    """Settings, a claim for counters of usage, and the Deployment."""
    name, marks = object_name("gateway", label), labels("gateway", label)
    text = json.dumps(settings_of(gateway, addresses), indent=2) + "\n"
    ports = gateway.slice.ports
    pod = {
        **pod_head(UID, host.servers[0].triton.uid),
        "terminationGracePeriodSeconds": NOTICE_SECONDS + gateway.slice.drain_seconds + STOP_MARGIN_SECONDS,
        **_with_triton(host, label),
        "containers": [_process(gateway, number, port) for number, port in enumerate(ports)],
        "volumes": [
            {"name": "settings", "projected": {"defaultMode": 0o440, "sources": _sources(host, gateway, name)}},
            {"name": "weights", "persistentVolumeClaim": {"claimName": object_name("weights", label)}},
            {"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "usage", "persistentVolumeClaim": {"claimName": name}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
        ],
    }
    spec = {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "selector": {"matchLabels": marks},
        "template": template(host, marks, pod),
    }
    return [
        manifest("v1", "ConfigMap", name, namespace, marks, data={"settings.json": text}),
        claim(name, namespace, marks, STATE_GIB, storage),
        manifest("apps/v1", "Deployment", name, namespace, marks, spec=spec),
    ]


def _sources(host: ServedHost, gateway: ServedGateway, name: str) -> list[dict[str, Any]]:
    """The sources of one directory, as on a host: settings beside the files of the Secret that the settings name."""
    is_beside = any(server.standalone_llm for server in host.slice.servers)
    items = [{"key": "keys.json", "path": "keys.json"}] if gateway.slice.keys else []
    items += [{"key": "salt", "path": "salt"}] if gateway.slice.has_salt(is_beside) else []
    settings = {"configMap": {"name": name, "items": [{"key": "settings.json", "path": "settings.json"}]}}
    return [settings, *([{"secret": {"name": KEYS_SECRET, "items": items}}] if items else [])]


def _with_triton(host: ServedHost, label: str) -> dict[str, Any]:
    """Places the Pod on the node of a server of its host, because it reads tokenizers from the same volume."""
    selector = {"matchLabels": labels("triton", label, host.servers[0].slice.name)}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }


def _process(gateway: ServedGateway, number: int, port: int) -> dict[str, Any]:
    environment = ENVIRONMENT | {"RUNTIME_DIRECTORY": SHARED, "STATE_DIRECTORY": STATE}
    health = {"httpGet": {"path": "/health", "port": port}}
    listens = {"tcpSocket": {"port": port}}
    return {
        "name": f"gateway-{number}",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "workingDir": gateway.directory,
        "command": [*gateway.command, str(number)],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [{"name": f"http-{number}", "containerPort": port}],
        "securityContext": confined(),
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4G"}},
        "startupProbe": listens | {"periodSeconds": START_PERIOD_SECONDS, "failureThreshold": START_TRIES},
        # The answer is 200 if the gateway can serve a model, and 503 after the stop signal.
        "readinessProbe": health | {"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
        "livenessProbe": listens | {"periodSeconds": 20, "timeoutSeconds": 5, "failureThreshold": 6},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(NOTICE_SECONDS)]}}},
        "volumeMounts": [
            mount("settings", gateway.folder),
            mount("weights", WEIGHTS),
            mount("shared", SHARED, writable=True),
            mount("usage", STATE, writable=True),
            mount("tmp", "/tmp", writable=True),
        ],
    }


def renamed(reference: str) -> dict[str, str]:
    """The fields by which kustomize names the image."""
    name, _, tag = reference.partition("@")[0].rpartition(":")
    digest = reference.partition("@")[2]
    return {"newName": name} | ({"digest": digest} if digest else {"newTag": tag})


def containerfile(gateway: ServedGateway) -> str:
    return f"""\
# Built and pushed by the commands of ../README.md. Pin this base by its digest once you have chosen one.
FROM python:{gateway.slice.python}-slim
RUN apt-get update && apt-get install --yes --no-install-recommends libseccomp2 && rm -rf /var/lib/apt/lists/*
COPY requirements.txt /tmp/requirements.txt
RUN python -m venv {gateway.environment} \\
 && {gateway.environment}/bin/python -m pip install --no-cache-dir --no-deps --only-binary=:all: --require-hashes \\
    --requirement /tmp/requirements.txt
COPY gateway {gateway.directory}/gateway
USER {UID}:{UID}
WORKDIR {gateway.directory}
"""
