"""A rehearsal machine as a host of a group: one LLM over all hosts of the group, beside its own encoder."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from deploy.spec import Fabric, Firewall, Gateway, Parallel
from rehearsal.triton_image import RUNTIMES
from tests.rehearsal.variants import Data, llama

IMAGES = {"vllm": "vllm/vllm-openai", "trtllm-serve": "nvidia/tensorrt-llm/release"}


def group_data(data: Data, names: tuple[str, ...]) -> Data:
    """The data of a host of the group of these names; RUNTIME is its program, BATCH the requests at once."""
    runtime, batch = os.environ.get("RUNTIME", "vllm"), int(os.environ.get("BATCH", "8"))
    (server,), release, machine = data["servers"], data["release"], data["machine"]
    registry, repository = release.image.split("/", 1)[0], IMAGES[runtime]
    split = replace(
        llama(),
        path="auto",
        precision="auto",
        calibration=None,
        replay=None,
        kv_cache=replace(llama().kv_cache, dtype="auto"),
        runtime=runtime,
        image=f"{registry}/{repository}:{RUNTIMES[repository]}@{release.digest}",
        parallel=Parallel(tensor=len(names) // 2, pipeline=2, hosts=names),
        max_batch_size=batch,
    )
    encoder: Any = next(model for model in server.models if model.name == "minilm")
    own = replace(server, models=(encoder, split), address="127.0.0.1", protection="", start_seconds=120)
    return {
        "machine": replace(machine, fabric=Fabric(kind="ethernet", gbit=1, interface="host0")),
        "peer_address": server.address,
        "firewall": Firewall(allow=data["firewall"].allow, rest="closed"),
        "servers": (own,),
        "gateway": Gateway(hold_seconds=300),
    }
