"""The fleet of the benchmark, whose hosts may reboot to repair their GPUs; at most one of them may be out."""

import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

_fleet = _runpy.run_path("benchmarks/inventories/fleet.py")
_OFTEN = {"gpu_state_seconds": 5}
"""Looks at the GPUs of these machines: every five seconds."""


def _mending(data: dict[str, _Any]) -> dict[str, _Any]:
    return data | {"machine": _replace(data["machine"], repair="reboot"), "health_settings": _OFTEN}


serving = [(name, _mending(data)) for name, data in _fleet["serving"]]
edge = _fleet["edge"]
