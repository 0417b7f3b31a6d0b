"""Two machines with a card each that serve one LLM together: vLLM, its layers in two stages.

Model, card, services and times are those of inventory.py. They serve no encoder; clients ask the first host, the
leader.
"""

import ipaddress as _ipaddress
import json as _json
import runpy as _runpy
from dataclasses import replace as _replace

from deploy.spec import Fabric as _Fabric
from deploy.spec import Firewall as _Firewall
from deploy.spec import Gateway as _Gateway
from deploy.spec import Machine as _Machine
from deploy.spec import Parallel as _Parallel

_NAMES = ("h0", "h1")
_single = _runpy.run_path("rehearsal/real_gpu/inventory.py")
((_, _data),), _ = _single["real_gpu"]
_together = _replace(_single["_beside"], parallel=_Parallel(tensor=1, pipeline=2, hosts=_NAMES), replay=None)
_server = _replace(_single["_server"], models=(_together,), address="127.0.0.1", protection="")


def _host(name: str) -> dict[str, object]:
    address = _json.loads((_single["_state"] / f"machines/{name}/machine.json").read_text())["address"]
    network = str(_ipaddress.ip_interface(f"{address}/24").network)
    return _data | {
        "machine": _Machine(
            os="debian-13",
            gpu=_data["machine"].gpu,
            gpus=1,
            fabric=_Fabric(kind="ethernet", gbit=10, interface="host0"),
        ),
        "peer_address": address,
        "firewall": _Firewall(allow=(network,), rest="closed"),
        "servers": (_server,),
        "gateway": _Gateway(hold_seconds=600),
    }


hosts = ([(name, _host(name)) for name in _NAMES], {})
