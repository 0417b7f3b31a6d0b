"""The rehearsal with a reranker twice: one copy downloaded by the host, one by the control machine."""

import runpy
from dataclasses import replace

from tests.faults.variants import hosts

_reranker = runpy.run_path("inventories/rehearsal.py")["_reranker"]
_by_host = replace(_reranker, name="by-host", weights=replace(_reranker.weights, fetch_on="host"))
_by_control = replace(_reranker, name="by-control")

rehearsal = hosts(
    lambda data, _: {
        "servers": tuple(replace(server, models=(*server.models, _by_host, _by_control)) for server in data["servers"])
    }
)
