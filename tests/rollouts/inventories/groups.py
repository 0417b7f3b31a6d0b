"""Groups of two rehearsal machines behind a balancer, the machine without a GPU.

RUNTIME and BATCH are those of group.py; GROUPS is the number of groups.
"""

import json as _json
import os as _os
import runpy as _runpy
from dataclasses import replace as _replace

from deploy.spec import Balancer as _Balancer
from deploy.spec import Firewall as _Firewall
from deploy.spec import Gateway as _Gateway
from deploy.spec import Rollout as _Rollout
from deploy.spec import Route as _Route
from deploy.spec import Secret as _Secret
from deploy.spec import Traffic as _Traffic
from rehearsal.places import Places as _Places
from tests.rehearsal.group_data import group_data as _group_data

_places = _Places.here()
_records = {file.parent.name: _json.loads(file.read_text()) for file in sorted(_places.machines.glob("*/machine.json"))}
_names = [name for name, record in _records.items() if record.get("gpu")]
_edge = [name for name, record in _records.items() if not record.get("gpu")]
_groups = [tuple(_names[first : first + 2]) for first in range(0, len(_names), 2)]
_groups = _groups[: int(_os.environ.get("GROUPS", "2"))]
_rollout = _Rollout(canary_hosts=1, wave_percent=100, max_unavailable=1)
_data = dict(_runpy.run_path("inventories/rehearsal.py")["rehearsal"])


def _host(name, data):
    (group,) = (group for group in _groups if name in group)
    together = _group_data(data, group)
    (server,) = together["servers"]
    return (
        data
        | together
        | {
            "servers": (_replace(server, address="0.0.0.0", protection="balancer"),),
            "firewall": _Firewall(rest="closed"),
            "gateway": _Gateway(address="0.0.0.0", protection="balancer", hold_seconds=300),
            "pool": "chat",
            "rollout": _rollout,
            "traffic": _Traffic(address=str(_records[name]["address"]), drain_seconds=20),
        }
    )


def _balancer(name, data):
    return {key: data[key] for key in ("ssh_config_file", "_sudo")} | {
        "balancer": _Balancer(
            os=_records[name]["os"],
            address=str(_records[name]["address"]),
            routes=(_Route(pool="chat", gateway_port=9443, http_port=9000, grpc_port=9001, hold_seconds=300),),
            certificate=str(_places.root / "edge/server.crt"),
            certificate_key=_Secret.command("cat", str(_places.root / "edge/server.key")),
            open_to_all=True,
            address_requests=0,
        ),
        "rollout": _rollout,
    }


serving = [(name, _host(name, _data[name])) for group in _groups for name in group]
edge = [(name, _balancer(name, _data[name])) for name in _edge]
