"""The fleet with a gateway on each host, and the balancer with TLS to the gateways' clients."""

import runpy as _runpy
from dataclasses import replace as _replace

from deploy.spec import Gateway as _Gateway
from deploy.spec import Secret as _Secret
from rehearsal.places import Places as _Places

GATEWAY_PORT = 9443
CERTIFICATES = _Places.here().root / "edge"
"""Made by rehearsal/certificates.py."""

_fleet = _runpy.run_path("tests/rollouts/inventories/fleet.py")
_behind = _Gateway(address="0.0.0.0", protection="balancer")


def _signed(balancer):
    return _replace(
        balancer,
        routes=tuple(_replace(route, gateway_port=GATEWAY_PORT) for route in balancer.routes),
        certificate=str(CERTIFICATES / "server.crt"),
        certificate_key=_Secret.command("cat", str(CERTIFICATES / "server.key")),
    )


serving = [(name, data | {"gateway": _behind}) for name, data in _fleet["serving"]]
edge = [(name, data | {"balancer": _signed(data["balancer"])}) for name, data in _fleet["edge"]]
