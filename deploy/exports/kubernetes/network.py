"""Services and network policies: the Pods' counterpart of a host's loopback, bridge and firewall."""

import re
from typing import Any

from deploy.exports.kubernetes.names import READY_PORT, Manifest, labels, manifest, object_name
from deploy.exports.kubernetes.pods import PORTS
from deploy.exports.served import ServedGateway, ServedHost, ServedServer

MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
"""The namespace of Prometheus; an overlay names another one."""
CLIENT = {"enginehouse/client": "yes"}
"""Label of Pods of the namespace that may send requests to Triton directly, without the gateway."""
DNS = {
    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


def services(server: ServedServer, label: str, namespace: str, ready_port: int) -> list[Manifest]:
    """Services of the server's ports, and of its readiness page, which also answers while the Pod is not ready."""
    name, marks = object_name("triton", server.slice.name, label), labels("triton", label, server.slice.name)
    ports = [
        {"name": port, "port": outside, "targetPort": port}
        for port, (outside, _) in zip(PORTS, server.triton.ports, strict=True)
    ]
    if server.llm:
        ports.append({"name": "llm", "port": server.llm.ports[0][0], "targetPort": "llm"})
    page = {"name": "ready", "port": ready_port, "targetPort": READY_PORT}
    return [
        manifest("v1", "Service", name, namespace, marks, spec={"selector": marks, "ports": ports}),
        manifest(
            "v1",
            "Service",
            object_name("ready", server.slice.name, label),
            namespace,
            marks,
            # A gateway that cannot read "drain" would continue to send requests.
            spec={"selector": marks, "ports": [page], "publishNotReadyAddresses": True},
        ),
    ]


def addresses(host: ServedHost, server: ServedServer, label: str, ready_port: int) -> dict[str, dict[str, str]]:
    """The server's entries of the gateway's settings, with the names of the Services."""
    name, full = object_name("triton", server.slice.name, label), f"{host.slice.host}/{server.slice.name}"
    page = f"http://{object_name('ready', server.slice.name, label)}:{ready_port}/ready/{server.slice.name}"
    entries = {full: {"grpc": f"{name}:{server.slice.grpc_port}", "ready_url": page}}
    if server.llm:
        entries[f"{full}/llm"] = {"http": f"{name}:{server.llm.ports[0][0]}", "ready_url": page}
    return entries


def gateway_service(gateway: ServedGateway, namespace: str) -> Manifest:
    """The Service of all gateways together: one name for clients, as a balancer provides for hosts."""
    marks = {"app.kubernetes.io/name": "gateway", "app.kubernetes.io/part-of": "enginehouse"}
    ports = [
        {"name": f"http-{number}", "port": port, "targetPort": f"http-{number}"}
        for number, port in enumerate(gateway.slice.ports)
    ]
    return manifest("v1", "Service", "gateway", namespace, marks, spec={"selector": marks, "ports": ports})


def disruption_budgets(names: list[str], has_gateway: bool, namespace: str) -> list[Manifest]:
    """Budgets that allow one Pod at a time to be evicted, of the servers of one name and of the gateways."""
    selected = {
        object_name("triton", name): {"app.kubernetes.io/name": "triton", "enginehouse/server": name} for name in names
    }
    selected |= {"gateway": {"app.kubernetes.io/name": "gateway"}} if has_gateway else {}
    return [
        manifest(
            "policy/v1",
            "PodDisruptionBudget",
            name,
            namespace,
            {"app.kubernetes.io/part-of": "enginehouse"},
            spec={"maxUnavailable": 1, "selector": {"matchLabels": marks}},
        )
        for name, marks in selected.items()
    ]


def policies(hosts: tuple[ServedHost, ...], namespace: str) -> list[Manifest]:
    """Policies that allow only the named connections in and out; Triton has no outgoing connection at all."""
    servers = [server for host in hosts for server in host.servers]
    llm_ports = sorted({server.llm.ports[0][1] for server in servers if server.llm})
    gateway_ports = sorted({port for host in hosts if host.gateway for port in host.gateway.slice.ports})
    triton, gateway = {"app.kubernetes.io/name": "triton"}, {"app.kubernetes.io/name": "gateway"}
    to_triton = [8001, READY_PORT, *llm_ports]
    hubs = sorted({443, *(_port(host.slice.hub.endpoint) for host in hosts)})
    into_triton = [
        {"from": [_pods(gateway)], "ports": _tcp(*to_triton)},
        {"from": [_pods(CLIENT)], "ports": _tcp(8000, 8001)},
        {"from": [MONITORING], "ports": _tcp(8002, *llm_ports)},
    ]
    rules: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("enginehouse-none", {}, {"policyTypes": ["Ingress", "Egress"]}),
        ("triton", triton, {"policyTypes": ["Ingress", "Egress"], "ingress": into_triton, "egress": []}),
        # The hub and a package index, whose addresses are unknown here.
        (
            "fetch",
            {"app.kubernetes.io/name": "fetch"},
            {"policyTypes": ["Egress"], "egress": [DNS, {"ports": _tcp(*hubs)}]},
        ),
    ]
    if gateway_ports:
        body = {"policyTypes": ["Ingress", "Egress"], "ingress": [{"ports": _tcp(*gateway_ports)}]}
        rules.append(("gateway", gateway, body | {"egress": [DNS, {"to": [_pods(triton)], "ports": _tcp(*to_triton)}]}))
    return [
        manifest(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            namespace,
            {"app.kubernetes.io/part-of": "enginehouse"},
            spec={"podSelector": {"matchLabels": marks} if marks else {}, **body},
        )
        for name, marks, body in rules
    ]


def _port(url: str) -> int:
    """The port in a hub's URL."""
    scheme, port = re.findall(r"^(https?)://[^/]*?(?::(\d+))?(?:/|$)", url)[0]
    return int(port or {"http": 80}.get(scheme, 443))


def _pods(marks: dict[str, str]) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": marks}}


def _tcp(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]
