"""A server with an LLM beside its Triton, as in the plan of a shipped inventory, with either runtime."""

from __future__ import annotations

import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import make_plan
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.runtime import RuntimeSlice
from tests.unit.samples import AROUND, Source

ROOT = Path(__file__).resolve().parents[3]


@cache
def host_with(runtime: str = "vllm", image: str = "vllm/vllm-openai:v0.26.0") -> Slice:
    """The host of inventories/h100_vllm.py, its LLM in this runtime."""
    hosts, data = runpy.run_path(str(ROOT / "inventories" / "h100_vllm.py"))["h100"]
    (server,) = data["servers"]
    changes: dict[str, Any] = {"runtime": runtime, "image": image}
    if runtime == "trtllm-serve":
        changes |= {"precision": "auto"}
    models = tuple(replace(model, **changes) if model in server.standalone_llms else model for model in server.models)
    data = data | {"servers": (replace(server, models=models),)}
    return make_plan(Fleet.of([Source(hosts[0], data)]), AROUND).slices[0]


def server_with(runtime: str = "vllm", image: str = "vllm/vllm-openai:v0.26.0") -> ServerSlice:
    """The plan's only server."""
    return host_with(runtime, image).servers[0]


def runtime_of(server: ServerSlice) -> RuntimeSlice:
    """The LLM's own program that runs beside Triton on this server."""
    assert server.standalone_llm
    return server.standalone_llm[1]


SERVE_1_2 = ("trtllm-serve", "nvcr.io/nvidia/tensorrt-llm/release:1.2.1")
SERVE_1_3 = ("trtllm-serve", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29")
EVERY = [("vllm", "vllm/vllm-openai:v0.26.0"), SERVE_1_2, SERVE_1_3]
