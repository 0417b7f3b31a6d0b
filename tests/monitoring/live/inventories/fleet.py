"""A machine that serves three models behind a gateway, a balancer before its Triton, and the monitor of both.

The machine with a card serves; `e1` is the balancer and `m1` the monitor.
"""

import json as _json
from dataclasses import replace as _replace

from deploy.spec import Balancer as _Balancer
from deploy.spec import Gateway as _Gateway
from deploy.spec import Monitor as _Monitor
from deploy.spec import Route as _Route
from deploy.spec import Traffic as _Traffic
from tests.monitoring.live.scene import MONITOR as _MONITOR
from tests.monitoring.live.scene import PLACES as _PLACES
from tests.rehearsal.variants import hosts as _hosts

_MODELS = ("minilm", "xlmr-reranker", "gpt-oss-tiny")
_WATCH = {"watch_seconds": 3, "answer_seconds": 3, "gpu_state_seconds": 5, "misses": 1000}
"""A look every few seconds; and the watchdog restarts nothing, so that a silent model stays silent."""
_DCGM = "registry.rehearsal.internal/dcgm-exporter@sha256:" + "0" * 64
"""Image of dcgm-exporter, which is never pulled: tests/monitoring/live/dcgm_exporter.py replaces the container."""

_records = {
    record["name"]: record
    for record in (_json.loads(file.read_text()) for file in sorted(_PLACES.machines.glob("*/machine.json")))
}
_all = dict(_hosts(lambda data, _: {}))
_others = [name for name, record in _records.items() if not record.get("gpu")]


def _serving(name: str) -> dict[str, object]:
    data = _all[name]
    (server,) = data["servers"]
    models = tuple(model for model in server.models if model.name in _MODELS)
    return data | {
        "servers": (_replace(server, models=models, address="0.0.0.0", protection="balancer"),),
        "firewall": None,
        "pool": "pool0",
        "traffic": _Traffic(address=str(_records[name]["address"]), drain_seconds=5),
        "gateway": _Gateway(ports=(8080,), keys=None, trace_one_in=1),
        "health_settings": _WATCH,
    }


def _without_card(name: str) -> dict[str, object]:
    record, data = _records[name], _all[name]
    place = {"os": record["os"], "address": str(record["address"])}
    kept = {key: data[key] for key in ("ssh_config_file", "_sudo", "rollout")}
    if name != _MONITOR:
        return kept | {
            "balancer": _Balancer(
                **place,
                routes=(_Route(pool="pool0", http_port=9000, grpc_port=9001, hold_seconds=300),),
                open_to_all=True,
            )
        }
    readers = data["firewall"].allow
    return kept | {"monitor": _Monitor(**place, allow=readers, scrape_seconds=5, retention_mib=512, dcgm_image=_DCGM)}


serving = [(name, _serving(name)) for name in _records if name not in _others]
others = [(name, _without_card(name)) for name in _others]
