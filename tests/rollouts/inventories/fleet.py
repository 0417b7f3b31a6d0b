"""The benchmark's fleet with three hosts, upgraded one at a time, and a release that ROLLOUT_BAD makes bad.

`unloadable`, `wrong` and `moved` give the embedder other weights (tests/rollouts/weights.py), `slow` makes it wait.
"""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

from deploy.spec import Weights as _Weights
from rehearsal.places import Places as _Places
from tests.rollouts.weights import KINDS as _KINDS

SLOW_MICROSECONDS = 500_000

_fleet = _runpy.run_path("benchmarks/inventories/fleet.py")
_bad = _os.environ.get("ROLLOUT_BAD", "")
_gates = {"slower_percent": 50 if _bad == "slow" else 0, "on_failure": "wave"}


def _embedder(model: _Any) -> _Any:
    if model.name != "minilm":
        return model
    if _bad in _KINDS:
        return _replace(model, weights=_Weights.local(str(_Places.here().root / "weights" / _bad)))
    return _replace(model, max_queue_delay_microseconds=SLOW_MICROSECONDS) if _bad == "slow" else model


def _host(data: dict[str, _Any]) -> dict[str, _Any]:
    servers = data.get("servers", ())
    changed = tuple(_replace(server, models=tuple(_embedder(model) for model in server.models)) for server in servers)
    return data | ({"servers": changed} if changed else {}) | {"rollout": _replace(data["rollout"], **_gates)}


serving = [(name, _host(data)) for name, data in _fleet["serving"]]
edge = [(name, _host(data)) for name, data in _fleet["edge"]]
