"""A rehearsal machine with an LLM beside Triton: RUNTIME is its program, BATCH the requests at once, CACHE its type."""

import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Gateway as _Gateway
from deploy.spec import Replay as _Replay
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
        replay=_Replay(prompts="rehearsal/replay/prompts.jsonl", max_tokens=16),
        kv_cache=_replace(_llama().kv_cache, dtype=_os.environ.get("CACHE", "auto")),
        runtime=runtime,
        image=f"{registry}/{repository}:{_TAGS[repository]}@{release.digest}",
        max_batch_size=int(_os.environ.get("BATCH", "8")),
    )
    encoder = next(model for model in server.models if model.name == "minilm")
    return {
        "servers": (_replace(server, models=(encoder, beside), address="127.0.0.1", protection=""),),
        "gateway": _Gateway(hold_seconds=600),
    }


rehearsal = _hosts(_data)
