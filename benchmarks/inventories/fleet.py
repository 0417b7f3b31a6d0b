"""The fleet that `benchmarks/rollout.py` changes: serving machines in pools, and the balancers before them.

The rehearsal's own inventory, with the two smallest models of two kinds per host. The environment sets the differences
between runs: ROLLOUT_CHANGES (release, driver, daemon), ROLLOUT_POOLS, ROLLOUT_HELD, and ROLLOUT_OUT, the hosts of a
pool that may be out at once. A machine without a GPU is a balancer.
"""

import json as _json
import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

from benchmarks import front as _front
from deploy.spec import Balancer as _Balancer
from deploy.spec import Docker as _Docker
from deploy.spec import Driver as _Driver
from deploy.spec import Rollout as _Rollout
from deploy.spec import Route as _Route
from deploy.spec import Traffic as _Traffic

MODELS = frozenset({"minilm", "gpt-oss-tiny"})
OTHER_BRANCH = "595"

_rehearsal = _runpy.run_path("inventories/rehearsal.py")
_changes = set(filter(None, _os.environ.get("ROLLOUT_CHANGES", "").split(",")))
_pools = [f"pool{number}" for number in range(int(_os.environ.get("ROLLOUT_POOLS", "1")))]
_hold_seconds = _front.HOLD_SECONDS if _os.environ.get("ROLLOUT_HELD") else 0
_records = {
    record["name"]: record
    for record in (
        _json.loads(file.read_text()) for file in sorted(_rehearsal["_state"].glob("machines/*/machine.json"))
    )
}
_serving = [name for name, record in _records.items() if record.get("gpu")]
_edge = [name for name, record in _records.items() if not record.get("gpu")]
_rollout = _Rollout(canary_hosts=1, wave_percent=50, max_unavailable=int(_os.environ.get("ROLLOUT_OUT", "2")))


def _models(data: dict[str, _Any]) -> tuple[_Any, ...]:
    """Returns the models of a host; a changed release runs smaller batches of the embedder, with equal answers."""
    kept = (model for model in data["servers"][0].models if model.name in MODELS)
    smaller = {"max_batch_size": 16} if "release" in _changes else {}
    return tuple(_replace(model, **smaller) if model.name == "minilm" else model for model in kept)


def _host(name: str, data: dict[str, _Any]) -> dict[str, _Any]:
    # No address is in the release, so that forks of a deployed machine have nothing to swap.
    server = _replace(
        data["servers"][0], models=_models(data), address="0.0.0.0", protection="balancer" if _edge else "firewall"
    )
    return data | {
        "servers": (server,),
        "gateway": None,  # these clients use Triton itself
        # Only balancers may connect if there are any; otherwise this computer asks the host directly.
        "firewall": None if _edge else data["firewall"],
        "driver": _Driver(branch=OTHER_BRANCH) if "driver" in _changes else _Driver(),
        "docker": _Docker(daemon={"max-concurrent-uploads": 4} if "daemon" in _changes else {}),
        "rollout": _rollout,
        "pool": _pools[_serving.index(name) * len(_pools) // len(_serving)],
        "traffic": _Traffic(address=str(_records[name]["address"]), drain_seconds=_front.DRAIN_SECONDS),
    }


def _balancer(name: str, data: dict[str, _Any]) -> dict[str, _Any]:
    routes = tuple(
        _Route(
            pool=pool,
            http_port=_front.ports(number)[0],
            grpc_port=_front.ports(number)[1],
            hold_seconds=_hold_seconds,
        )
        for number, pool in enumerate(_pools)
    )
    record = _records[name]
    return {key: data[key] for key in ("ssh_config_file", "_sudo")} | {
        "balancer": _Balancer(
            os=record["os"],
            address=str(record["address"]),
            routes=routes,
            open_to_all=True,
            address_requests=0,
        ),
        "rollout": _rollout,
    }


_data = dict(_rehearsal["rehearsal"])
serving = [(name, _host(name, _data[name])) for name in _serving]
edge = [(name, _balancer(name, _data[name])) for name in _edge]
