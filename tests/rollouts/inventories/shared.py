"""The machines of a rehearsal as hosts that share files: three small models, one of them private, and the image.

One model comes from the hub, one from the control machine, and each host fetches the private model from the hub. The
first machine alone is the fleet while SHARING_ALONE is set.
"""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace

from deploy.spec import Sharing as _Sharing

_MODELS, _PRIVATE = ("minilm", "nomic-moe", "gpt-oss-tiny"), "gpt-oss-tiny"

_rehearsal = _runpy.run_path("inventories/rehearsal.py")
_addresses = {machine["name"]: machine["address"] for machine in _rehearsal["_machines"]}


def _model(model):
    return _replace(model, weights=_replace(model.weights, private=model.name == _PRIVATE))


def _host(name, data):
    (server,) = data["servers"]
    kept = tuple(_model(model) for model in server.models if model.name in _MODELS)
    return data | {
        "servers": (_replace(server, models=kept),),
        "gateway": None,
        "sharing": _Sharing(images_port=7399),
        "peer_address": _addresses[name],
    }


rehearsal = [(name, _host(name, data)) for name, data in _rehearsal["rehearsal"]]
if _os.environ.get("SHARING_ALONE"):
    rehearsal = rehearsal[:1]
