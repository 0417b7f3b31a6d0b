"""A rehearsal machine with an LLM beside Triton: RUNTIME says by which program, BATCH how many requests at once."""

import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Gateway as _Gateway
from rehearsal.triton_image import RUNTIMES as _TAGS
from tests.rehearsal.variants import hosts as _hosts
from tests.rehearsal.variants import llama as _llama

_IMAGES = {"vllm": "vllm/vllm-openai", "trtllm-serve": "nvidia/tensorrt-llm/release"}


def _data(data: dict[str, _Any], _: _Path) -> dict[str, _Any]:
    runtime, (server,), release = _os.environ.get("RUNTIME", "vllm"), data["servers"], data["release"]
    registry, repository = release.image.split("/", 1)[0], _IMAGES[runtime]
    beside = _replace(
        _llama(),
        path="auto",
        precision="auto",
        calibration=None,
        replay=None,
        kv_cache=_replace(_llama().kv_cache, dtype="auto"),
        runtime=runtime,
        image=f"{registry}/{repository}:{_TAGS[repository]}@{release.digest}",
        max_batch_size=int(_os.environ.get("BATCH", "8")),
    )
    encoder = next(model for model in server.models if model.name == "minilm")
    return {
        "servers": (_replace(server, models=(encoder, beside), address="127.0.0.1", protection=""),),
        "gateway": _Gateway(),
    }


rehearsal = _hosts(_data)
