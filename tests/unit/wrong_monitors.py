"""Wrong monitors, and hosts that a monitor could not read; `h100-01` is the host, `eyes` the monitor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import Monitor, Secret
from tests.unit.samples import MAIN, Source
from tests.unit.wrong import Wrong

EYES = Monitor(os="debian-12", address="10.0.0.9")
WATCHED = {"peer_address": "10.0.0.11"}


def eyes(**changes: Any) -> Source:
    """The monitor with these changes."""
    beside = {key: changes.pop(key) for key in ("servers",) if key in changes}
    return Source("eyes", {"monitor": replace(EYES, **changes), **beside})


def wrong_eyes(kind: str, field: str, **changes: Any) -> Wrong:
    """A monitor with one mistake, over a good host."""
    return Wrong(WATCHED, kind, f"monitor.{field}", (eyes(**changes),))


def wrong_host(kind: str, where: str, **changes: Any) -> Wrong:
    """A host with one mistake under a good monitor."""
    return Wrong(WATCHED | changes, kind, where, (eyes(),))


ALL = {
    "a monitor's system is offered the nearest": wrong_eyes("unknown-os", "os", os="debian12"),
    "a monitor's address is no loopback": wrong_eyes("bad-address", "address", address="127.0.0.1"),
    "a monitor keeps what its rules read": wrong_eyes("unbelievable-number", "retention_days", retention_days=1),
    "a monitor looks at least once a minute": wrong_eyes("unbelievable-number", "scrape_seconds", scrape_seconds=300),
    "a monitor's programs have two ports": wrong_eyes("port-twice", "prometheus_port", alertmanager_port=9090),
    "a monitor's readers are networks": wrong_eyes("bad-network", "allow", allow=("10.0.0.1/8",)),
    "not everybody reads a monitor": wrong_eyes("firewall-allows-everybody", "allow", allow=("0.0.0.0/0",)),
    "dcgm-exporter's image has a digest": wrong_eyes("image-not-pinned", "dcgm_image", dcgm_image="nvcr.io/dcgm:4.5"),
    "receivers are named and not typed out": wrong_eyes(
        "literal-secret", "receivers", receivers=Secret.env("ghp_0123456789abcdef")
    ),
    "a monitor serves nothing itself": Wrong(WATCHED, "monitor-with-servers", "servers", (eyes(servers=(MAIN,)),)),
    "a monitor reaches its hosts": wrong_host("no-peer-address", "peer_address", peer_address=""),
    "the exporters' ports are free": wrong_host(
        "port-twice", 'servers["main"].http_port', servers=(replace(MAIN, http_port=8005),)
    ),
}
