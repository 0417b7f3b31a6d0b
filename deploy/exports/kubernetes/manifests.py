"""All manifests of a plan as files of a folder.

kustomization.yaml          stage/ and serve/, and names of images
stage/                      namespace, policies, programs, claims and fetch Jobs; running servers do not change
serve/                      a file for each server and each gateway
monitoring/                 for a Prometheus operator, by itself
gateway-image/              files from which the gateway's image is built
README.md                   commands to type, and the differences between a Pod and a host
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from deploy.exports.kubernetes import gateway, monitoring, network, pods, weights
from deploy.exports.kubernetes.files import config_maps
from deploy.exports.kubernetes.names import READY_PORT, Manifest, host_labels, labels, object_name
from deploy.exports.kubernetes.page import page
from deploy.exports.kubernetes.refused import problems
from deploy.exports.kubernetes.weights import Storage
from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.refusals import refuse_all

PART_OF = {"app.kubernetes.io/part-of": "enginehouse"}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # yaml is not typed: its class is Any
    """YAML as a person writes it: texts of several lines as blocks, lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(objects: Iterable[Manifest]) -> str:
    return "".join(f"---\n{_dumped(object_)}" for object_ in objects)


def _dumped(value: object) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000))


def files(served: Served, namespace: str, storage: Storage, gateway_image: str = gateway.PLACEHOLDER) -> dict[str, str]:
    """Every file by its path in the folder; `gateway_image` is the reference under which the operator pushes it.

    Raises: one Refusal for all features of the hosts that no Pod can have.
    """
    refuse_all(problems(served))
    hosts, short = (
        tuple(host for host in served.hosts if host.servers),
        host_labels(mine.slice.host for mine in served.hosts),
    )
    programs, sources = config_maps("programs", namespace, PART_OF, served.programs)
    stage = {"namespace": [_namespace(namespace)], "policies": network.policies(hosts, namespace), "programs": programs}
    serve: dict[str, list[Manifest]] = {}
    for host in hosts:
        label = short[host.slice.host]
        stage[object_name("weights", label)] = weights.staged(served, host, label, namespace, sources, storage)
        serve |= _servers(served, host, label, namespace, sources)
    addresses = _addresses(hosts, short)
    for host in hosts:
        if host.gateway:
            label = short[host.slice.host]
            objects = gateway.deployed(host, host.gateway, label, namespace, addresses, storage)
            serve[object_name("gateway", label)] = objects
    gateways = [host.gateway for host in hosts if host.gateway]
    names = sorted({server.slice.name for host in hosts for server in host.servers})
    serve["disruption-budgets"] = network.disruption_budgets(names, bool(gateways), namespace)
    if gateways:
        serve["gateway"] = [network.gateway_service(gateways[0], namespace)]
    folders = {"stage": stage, "serve": serve, "monitoring": {"monitoring": monitoring.monitored(served, namespace)}}
    texts = {
        f"{folder}/{name}.yaml": to_yaml(objects) for folder, of in folders.items() for name, objects in of.items()
    }
    for folder, of in folders.items():
        texts[f"{folder}/kustomization.yaml"] = _kustomization([f"{name}.yaml" for name in of])
    texts["kustomization.yaml"] = _kustomization(["stage", "serve"])
    if gateways:
        images = [{"name": gateway.IMAGE, **gateway.renamed(gateway_image)}]
        texts["serve/kustomization.yaml"] = _kustomization([f"{name}.yaml" for name in serve], images)
        texts["gateway-image/Containerfile"] = gateway.containerfile(gateways[0])
        texts["gateway-image/requirements.txt"] = gateways[0].requirements
        texts |= {f"gateway-image/gateway/{path}": content.decode() for path, content in gateways[0].sources.items()}
    texts["README.md"] = page(served, hosts, short, namespace, gateway_image)
    return texts


def _servers(
    served: Served, host: ServedHost, label: str, namespace: str, programs: list[dict[str, Any]]
) -> dict[str, list[Manifest]]:
    """Two files for each server of a host: its Deployment and Services, and the ConfigMaps of its release."""
    result: dict[str, list[Manifest]] = {}
    for server in host.servers:
        name = object_name("triton", server.slice.name, label)
        marks = labels("triton", label, server.slice.name)
        texts = {f"release/{path}": content.decode() for path, content in server.files.items()}
        texts["pod.json"] = json.dumps(_pod_settings(host, server, label), indent=2) + "\n"
        maps, sources = config_maps(name, namespace, marks, texts)
        result[name] = [
            pods.deployment(served, host, server, label, namespace, programs, sources),
            *network.services(server, label, namespace, _ready_port(host)),
        ]
        result[f"release-{name}"] = maps
    return result


def _addresses(hosts: Iterable[ServedHost], short: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Every server's addresses, by the name that gateways use for the server."""
    entries: dict[str, dict[str, str]] = {}
    for host in hosts:
        for server in host.servers:
            entries |= network.addresses(host, server, short[host.slice.host], _ready_port(host))
    return entries


def _ready_port(host: ServedHost) -> int:
    return host.slice.traffic.ready_port if host.slice.traffic else READY_PORT


def _pod_settings(host: ServedHost, server: ServedServer, label: str) -> dict[str, Any]:
    """The file that files/host/pod.py reads."""
    traffic = host.slice.traffic
    containers = [server.triton, *([server.llm] if server.llm else [])]
    return {
        "release": server.release,
        "directories": sorted({path for container in containers for path in container.directories}),
        "wheels": list(server.wheels),
        "job": weights.job_name(host, label),
        "ready_port": READY_PORT,
        "answer_seconds": host.answer_seconds,
        "drain_seconds": traffic.drain_seconds if traffic else 0,
    }


def _namespace(name: str) -> Manifest:
    """The namespace, with the strictest Pod security standard. GPUs need no exception, because the device plugin
    assigns them."""
    marks = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": PART_OF | marks}}


def _kustomization(resources: list[str], images: list[dict[str, str]] | None = None) -> str:
    content: dict[str, Any] = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    content |= {"resources": resources} | ({"images": images} if images else {})
    return _dumped(content)
