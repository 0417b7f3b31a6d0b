"""The fleet with one front door, on its first host: it sends to all three, to the others over mutual TLS."""

import runpy as _runpy

from deploy.spec import Door as _Door
from rehearsal.places import Places as _Places

FIRST = "h1"
AUTHORITY = _Places.here().root / "authority"

_fleet = _runpy.run_path("tests/rollouts/inventories/fleet.py")


def _host(name, data):
    door = _Door(others=(data["pool"],)) if name == FIRST else None
    return data | {"door": door, "mutual_settings": {"authority": str(AUTHORITY)}}


serving = [(name, _host(name, data)) for name, data in _fleet["serving"]]
edge = _fleet["edge"]
