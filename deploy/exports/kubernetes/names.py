"""Names of Kubernetes objects: a host's label, labels of Pods, and the first fields of every object."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

Manifest = dict[str, Any]

READY_PORT = 8003
DIGITS = 10


def host_labels(hosts: Iterable[str]) -> dict[str, str]:
    """A DNS label for each host: its first label if no other host has it, else its whole name."""
    names = list(dict.fromkeys(hosts))
    short = {name: _label(name if re.fullmatch(r"[\d.:]+", name) else name.split(".")[0]) for name in names}
    several = Counter(short.values())
    return {name: short[name] if several[short[name]] == 1 else _label(name) for name in names}


def _label(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    label = words if words[:1].isalpha() else f"host-{words}"
    return label if len(label) <= 30 else f"{label[:21].strip('-')}-{digest(name)[:8]}"


def object_name(kind: str, *parts: str) -> str:
    """`triton-main-h100-01`, in at most 52 characters, because a Job or ReplicaSet appends its own digits."""
    name = re.sub(r"[^a-z0-9-]+", "-", "-".join((kind, *parts)).lower())
    return name if len(name) <= 52 else f"{name[:43].strip('-')}-{digest(name)[:8]}"


def digest(content: object) -> str:
    """Ten hex digits over a text or over plain values."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def labels(app: str, host: str, server: str = "") -> dict[str, str]:
    """The labels that Services, policies and monitors select by."""
    of_server = {"enginehouse/server": server} if server else {}
    return {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/part-of": "enginehouse",
        "enginehouse/host": host,
    } | of_server


def manifest(version: str, kind: str, name: str, namespace: str, labels_: dict[str, str], **body: Any) -> Manifest:
    """An object with its first fields."""
    metadata = {"name": name, "namespace": namespace, "labels": labels_}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
