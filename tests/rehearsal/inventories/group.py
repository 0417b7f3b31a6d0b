"""Rehearsal machines that serve one LLM together: BATCH is the requests at once, and another value a new release."""

import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Fabric as _Fabric
from deploy.spec import Firewall as _Firewall
from deploy.spec import Gateway as _Gateway
from deploy.spec import Parallel as _Parallel
from rehearsal import machines as _machines
from rehearsal.triton_image import RUNTIMES as _TAGS
from tests.rehearsal.variants import hosts as _hosts
from tests.rehearsal.variants import llama as _llama

_NAMES = tuple(machine.name for machine in _machines.known())


def _data(data: dict[str, _Any], _: _Path) -> dict[str, _Any]:
    (server,), release, machine = data["servers"], data["release"], data["machine"]
    together = _replace(
        _llama(),
        path="auto",
        precision="auto",
        calibration=None,
        replay=None,
        kv_cache=_replace(_llama().kv_cache, dtype="auto"),
        runtime="vllm",
        image=f"{release.image.split('/', 1)[0]}/vllm/vllm-openai:{_TAGS['vllm/vllm-openai']}@{release.digest}",
        parallel=_Parallel(tensor=len(_NAMES) // 2, pipeline=2, hosts=_NAMES),
        max_batch_size=int(_os.environ.get("BATCH", "8")),
    )
    encoder = next(model for model in server.models if model.name == "minilm")
    own = _replace(server, models=(encoder, together), address="127.0.0.1", protection="", start_seconds=120)
    return {
        "machine": _replace(machine, fabric=_Fabric(kind="ethernet", gbit=10, interface="host0")),
        "peer_address": server.address,
        "firewall": _Firewall(allow=data["firewall"].allow, rest="closed"),
        "servers": (own,),
        "gateway": _Gateway(hold_seconds=300),
    }


rehearsal = _hosts(_data)
