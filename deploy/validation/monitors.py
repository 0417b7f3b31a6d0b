"""Monitors and their targets: ports, networks and times that can work, and hosts that a monitor can reach."""

import re
from collections.abc import Iterator

from deploy.catalog import SYSTEMS
from deploy.catalog.names import offer
from deploy.inventory.fleet import Fleet
from deploy.refusals import Refusal, refuse
from deploy.spec import Host, Monitor
from deploy.topology.balancing import address_of, is_reachable
from deploy.topology.monitors import BLACKBOX_PORT, NODE_PORT, OURS
from deploy.validation.addresses import no_address, support_address
from deploy.validation.firewall import network_problems
from deploy.validation.ports import taken_with_gateway
from deploy.validation.proxies import declared_proxy_problems
from deploy.validation.secrets import named_secret

PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def monitor_problems(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each mistake in a monitor, and for each host that no monitor could read."""
    for monitor in fleet.monitors:
        yield from ((monitor.name, problem) for problem in _of_monitor(monitor.monitor))
        if monitor.proxy is not None:
            yield from ((monitor.name, problem) for problem in declared_proxy_problems(monitor.proxy))
    if fleet.monitors:
        yield from ((host.name, problem) for host in fleet.hosts for problem in _of_host(host))


def _of_monitor(declared: Monitor) -> Iterator[Refusal]:
    if declared.os not in SYSTEMS:
        yield refuse(
            "unknown-os",
            f"no monitor is set up on {declared.os!r}",
            where="monitor.os",
            seen=repr(declared.os),
            wanted=", ".join(sorted(SYSTEMS)),
            attempt=offer(declared.os, sorted(SYSTEMS)),
        )
    yield from support_address("monitor", declared.address)
    taken = [declared.prometheus_port, declared.alertmanager_port, NODE_PORT, BLACKBOX_PORT]
    if len(set(taken)) < len(taken):
        yield refuse(
            "port-twice",
            "two programs of the monitor would have the same port",
            where="monitor.prometheus_port",
            seen=f"Prometheus {taken[0]}, Alertmanager {taken[1]}, node-exporter {taken[2]}, blackbox-exporter "
            f"{taken[3]}",
            wanted="a port of its own for each",
            attempt="leave prometheus_port and alertmanager_port out",
        )
    yield from network_problems(declared.allow, "monitor.allow", "Prometheus")
    if declared.receivers is not None:
        yield from named_secret("monitor.receivers", declared.receivers, "RECEIVERS")
    if declared.dcgm_image and not PINNED.fullmatch(declared.dcgm_image):
        yield refuse(
            "image-not-pinned",
            "dcgm-exporter's image has no digest: its tag could name another image tomorrow",
            where="monitor.dcgm_image",
            seen=repr(declared.dcgm_image),
            wanted="NAME@sha256: and 64 hex digits",
            attempt=f"docker buildx imagetools inspect {_image_meant(declared.dcgm_image)} prints the digest",
        )


def _of_host(host: Host) -> Iterator[Refusal]:
    """Refusals of a host that a monitor of the inventory reads."""
    if not is_reachable(address_of(host)):
        yield no_address(host, "this host declares no address at which the monitor reaches it", "the monitor")
    taken = taken_with_gateway(host)
    for port in sorted(taken.keys() & OURS.keys()):
        yield refuse(
            "port-twice",
            f"port {port} is used twice on one host",
            where=taken[port],
            seen=f"{port}, also {OURS[port]} on a host that a monitor reads",
            wanted="another port",
            attempt=f"Gateway(ports=({port + 1000},))"
            if taken[port] == "gateway.ports"
            else f"{taken[port].rpartition('.')[2]}={port + 1000}",
        )


def _image_meant(image: str) -> str:
    """The typed image if it has a tag; else dcgm-exporter's own."""
    has_tag = re.fullmatch(r"[\w./:-]{1,200}:[\w.-]{1,128}", image) is not None
    return image if has_tag else "nvcr.io/nvidia/k8s/dcgm-exporter:TAG"
