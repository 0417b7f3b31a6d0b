"""The rehearsal without a network on its hosts: packages, image and models come from the control machine's bundle.

Services have addresses instead of names: the machine that bundles resolves none of the machines' names.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from deploy.spec import Hub, Mirrors
from tests.faults import variants
from tests.rehearsal.variants import Data


def _without_network(data: Data, state: Path) -> Data:
    address = json.loads((state / "services/services.json").read_text())["address"]
    mirrors: Mirrors = data["mirrors"]
    named = {
        name: replace(mirror, url=mirror.url.replace("apt.rehearsal.internal", address))
        for name, mirror in vars(mirrors).items()
        if mirror
    }
    release = data["release"]
    hub: Hub = data["hub"]
    return {
        "connected": False,
        "bundle": str(state / "bundle"),
        "mirrors": Mirrors(**named),
        "release": replace(release, image=release.image.replace("registry.rehearsal.internal", address)),
        "hub": hub,
    }


rehearsal = variants.hosts(_without_network)
