"""The benchmark's fleet, whose hosts may reboot to repair their GPUs; NOTICES names the cloud of the last one."""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

_fleet = _runpy.run_path("benchmarks/inventories/fleet.py")
_last = _fleet["serving"][-1][0]


def _host(name: str, data: dict[str, _Any]) -> dict[str, _Any]:
    machine = _replace(
        data["machine"], repair="reboot", notices=_os.environ.get("NOTICES", "") if name == _last else ""
    )
    return data | {"machine": machine, "health_settings": {"gpu_state_seconds": 5}}


serving = [(name, _host(name, data)) for name, data in _fleet["serving"]]
edge = _fleet["edge"]
