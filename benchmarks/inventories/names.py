"""Many names of the existing machines, in turn, for `benchmarks/converge.py` and `doctor.py`.

The rehearsal's own inventory with its smallest encoder. Every name is a separate host to pyinfra, with its own
connection. CONVERGE_NAMES is the number of names.
"""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

_rehearsal = _runpy.run_path("inventories/rehearsal.py")
_names = int(_os.environ.get("CONVERGE_NAMES", "1"))


def _host(data: dict[str, _Any]) -> dict[str, _Any]:
    server = data["servers"][0]
    models = tuple(model for model in server.models if model.name == "minilm")
    return data | {
        "ssh_config_file": str(_rehearsal["_state"] / "names_config"),
        "gateway": None,  # explicit, because by default a single host has a gateway and several have none
        "servers": (_replace(server, models=models),),
    }


_machines = _rehearsal["rehearsal"]
names = [(f"n{number:03}", _host(_machines[number % len(_machines)][1])) for number in range(_names)]
