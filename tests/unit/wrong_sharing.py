"""Hosts that cannot share files, by the promise that each proves."""

from __future__ import annotations

from typing import Any

from deploy.spec import Gateway, Sharing
from tests.unit.samples import MACHINE, MAIN, Source
from tests.unit.wrong import Wrong

SHARES = {"sharing": Sharing(), "peer_address": "10.0.0.11"}


def wrong_sharing(kind: str, where: str, **changes: Any) -> Wrong:
    """A host with one mistake beside a good one that shares the same model."""
    sound = {"machine": MACHINE, "servers": (MAIN,), "gateway": None, **SHARES, "peer_address": "10.0.0.12"}
    return Wrong(SHARES | changes, kind, where, (Source("h100-02", sound),))


ALL = {
    "hosts that share have an address": wrong_sharing("no-peer-address", "peer_address", peer_address=""),
    "hosts that share have two addresses": wrong_sharing(
        "peer-address-twice", "peer_address", peer_address="10.0.0.12"
    ),
    "files are shared at ports": wrong_sharing("port-range", "sharing.port", sharing=Sharing(port=80)),
    "each set of files has a port": wrong_sharing("port-range", "sharing.port", sharing=Sharing(port=65535)),
    "files are shared at ports of their own": wrong_sharing("port-twice", "sharing.port", sharing=Sharing(port=7999)),
    "images have a port of their own": wrong_sharing(
        "port-twice", "sharing.images_port", sharing=Sharing(images_port=7400)
    ),
    "a gateway's port is not shared": wrong_sharing("port-twice", "sharing.port", gateway=Gateway(ports=(7401,))),
}
