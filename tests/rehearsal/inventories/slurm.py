"""Two rehearsal machines with a GPU in a pool, and a balancer that holds requests while neither is ready."""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

_os.environ["ROLLOUT_HELD"] = "1"
_fleet = _runpy.run_path("benchmarks/inventories/fleet.py")


def _from_hub(data: dict[str, _Any]) -> dict[str, _Any]:
    (server,) = data["servers"]
    models = tuple(_replace(model, weights=_replace(model.weights, fetch_on="host")) for model in server.models)
    return data | {"servers": (_replace(server, models=models),)}


serving = [(name, _from_hub(data)) for name, data in _fleet["serving"]]
edge = _fleet["edge"]
