"""A balancer that serves only clients with a certificate, before a host that the tests replace.

The machine `e1` is the balancer, and STATE/clients.pem the authorities that sign its clients' certificates.
"""

import json as _json
from dataclasses import replace as _replace

from deploy.spec import Balancer as _Balancer
from deploy.spec import Gateway as _Gateway
from deploy.spec import Rollout as _Rollout
from deploy.spec import Route as _Route
from deploy.spec import Secret as _Secret
from inventories.fleet import search as _search
from rehearsal.network import Network as _Network
from rehearsal.places import Places as _Places

_places = _Places.here()
_machine = _json.loads((_places.machines / "e1/machine.json").read_text())
_data = _search[1]
_rollout = _Rollout(interrupt=True)
"""A rollout that may interrupt clients, because these tests have none."""
_server = _replace(_data["servers"][0], models=_data["servers"][0].models[1:])

serving = [
    (
        "h1",
        _data
        | {
            "servers": (_server,),
            "gateway": _Gateway(address="0.0.0.0", protection="balancer", ports=(8080,)),
            "rollout": _rollout,
            "peer_address": _Network(_places.number).bridge_address,
        },
    )
]
edge = [
    (
        "e1",
        {
            "ssh_config_file": str(_places.root / "ssh_config"),
            "_sudo": True,
            "rollout": _rollout,
            "balancer": _Balancer(
                os=_machine["os"],
                address=str(_machine["address"]),
                routes=(_Route(pool="search", gateway_port=443, http_port=8443, grpc_port=8444),),
                certificate=str(_places.root / "edge.pem"),
                certificate_key=_Secret.command("cat", str(_places.root / "edge.key")),
                clients=str(_places.root / "clients.pem"),
            ),
        },
    )
]
