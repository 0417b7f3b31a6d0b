"""A machine whose server and gateway an export can put into Pods: models of the PyTorch path, weights from the hub."""

from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Gateway as _Gateway
from tests.rehearsal.variants import hosts as _hosts


def _data(data: dict[str, _Any], _: _Path) -> dict[str, _Any]:
    (server,) = data["servers"]
    chosen = [model for model in server.models if model.name in ("minilm", "xlmr-reranker", "gpt-oss-tiny")]
    from_hub = tuple(_replace(model, weights=_replace(model.weights, fetch_on="host")) for model in chosen)
    servers = (_replace(server, models=from_hub, address="127.0.0.1", protection=""),)
    return {"servers": servers, "gateway": _Gateway()}


rehearsal = _hosts(_data)
