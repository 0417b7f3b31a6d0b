"""The fleet with a front door on each of its hosts, and the balancer speaking TLS with the doors' clients."""

import runpy as _runpy
from dataclasses import replace as _replace

from deploy.spec import Door as _Door
from deploy.spec import Secret as _Secret
from rehearsal.places import Places as _Places

DOOR_PORT = 9443
CERTIFICATES = _Places.here().root / "edge"
"""Made by rehearsal/certificates.py."""

_fleet = _runpy.run_path("tests/rollouts/inventories/fleet.py")
_behind = _Door(address="0.0.0.0", protection="balancer")


def _signed(balancer):
    return _replace(
        balancer,
        routes=tuple(_replace(route, door_port=DOOR_PORT) for route in balancer.routes),
        certificate=str(CERTIFICATES / "server.crt"),
        certificate_key=_Secret.command("cat", str(CERTIFICATES / "server.key")),
    )


serving = [(name, data | {"door": _behind}) for name, data in _fleet["serving"]]
edge = [(name, data | {"balancer": _signed(data["balancer"])}) for name, data in _fleet["edge"]]
