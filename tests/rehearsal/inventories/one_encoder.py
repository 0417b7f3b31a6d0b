"""The rehearsal's machines with one small encoder each: the smallest complete deploy, for slow machines.

Software emulation needs the smallest model, because an encoder tries several kernels before it answers.
"""

from dataclasses import replace as _replace
from typing import Any as _Any

from deploy.spec import Server as _Server
from tests.rehearsal.variants import hosts as _hosts


def _small(data: dict[str, _Any]) -> tuple[_Server, ...]:
    server = data["servers"][0]
    models = tuple(
        _replace(model, max_tokens=128, max_batch_tokens=256, weights=_replace(model.weights, fetch_on="host"))
        for model in server.models
        if model.name == "xlmr-reranker"
    )
    return (_replace(server, models=models, start_seconds=3600),)


rehearsal = _hosts(lambda data, _: {"servers": _small(data)})
