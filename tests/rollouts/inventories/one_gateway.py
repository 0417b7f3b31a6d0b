"""The fleet with one gateway, on its first host: the gateway sends to all three hosts, to the other two over mutual
TLS."""

import runpy as _runpy

from deploy.spec import Gateway as _Gateway
from rehearsal.places import Places as _Places

FIRST = "h1"
AUTHORITY = _Places.here().root / "authority"

_fleet = _runpy.run_path("tests/rollouts/inventories/fleet.py")


def _host(name, data):
    gateway = _Gateway(others=(data["pool"],)) if name == FIRST else None
    return data | {"gateway": gateway, "mutual_settings": {"authority": str(AUTHORITY)}}


serving = [(name, _host(name, data)) for name, data in _fleet["serving"]]
edge = _fleet["edge"]
