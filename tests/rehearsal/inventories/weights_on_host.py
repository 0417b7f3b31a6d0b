"""A rehearsal machine whose one encoder is read from PLACE of the host; without PLACE it comes from the hub."""

import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Weights as _Weights
from tests.rehearsal.variants import hosts as _hosts


def _data(data: dict[str, _Any], _: _Path) -> dict[str, _Any]:
    (server,) = data["servers"]
    encoder = next(model for model in server.models if model.name == "minilm")
    if place := _os.environ.get("PLACE", ""):
        encoder = _replace(encoder, weights=_Weights.on_host(place))
    return {"servers": (_replace(server, models=(encoder,)),)}


rehearsal = _hosts(_data)
