"""The real Triton 2.51 with a model of each kind, and a gateway before it: the LLM's slot over the image's stand-in."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.host import ServerSlice
from rehearsal import checkpoints as published
from rehearsal.triton_image import STAND_INS
from roles.triton.defaults import Defaults
from roles.triton.flags import TRACES
from roles.triton.render import render
from tests.encoders import checkpoints, real_triton
from tests.gateway.asking import RunningGateway, opened, settings
from tests.ports import free_ports
from tests.unit.samples import main, plan

LIMITS = {
    "max_batch_size": 32,
    "max_queue_delay_microseconds": 0,
    "max_queue_size": 64,
    "default_timeout_microseconds": 0,
}
CONTEXT_TOKENS = 256
RECEIVER = Path(__file__).parents[2] / "files" / "spans" / "receiver.py"
SOON = "--trace-config=opentelemetry,bsp_schedule_delay=100"


@dataclass(frozen=True)
class Scene:
    """A Triton with a model of each kind, and the LLM's weights."""

    triton: real_triton.Server
    weights: Path
    spans: Path = Path()
    """The file that holds the received spans."""


@contextlib.contextmanager
def standing(work: Path) -> Iterator[Scene]:
    """Yields ready models on weights written to this folder."""
    published.gpt_oss(work / "weights", [])
    repository = work / "models"
    for path, content in render(llm(work / "weights"), Defaults()).items():
        if path.startswith("models/"):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
    shared = {"device": "cpu", "dtype": "fp32", "max_items": "3"}
    for kind, name, config in (("embedder", "nomic", checkpoints.NOMIC), ("reranker", "bge_v2", checkpoints.XLMR)):
        (work / name).mkdir()
        path = checkpoints.write(work / name, config, checkpoints.weights_for(config))
        more = {"dimensions": 64} if kind == "embedder" else {}
        parameters = shared | {"model_path": str(path)}
        real_triton.add_model(repository, kind, name, parameters=parameters, **LIMITS, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_LLMAPI", str(image(work)))
        with receiving(work / "spans") as flags, real_triton.serving(repository, work, flags) as triton:
            yield Scene(triton, work / "weights", work / "spans")


@contextlib.contextmanager
def receiving(spans: Path) -> Iterator[list[str]]:
    """Yields flags of a server that traces into this file like one behind a gateway; a container has a fixed port."""
    (port,) = free_ports(1)
    with spans.open("wb") as output:
        receiver = subprocess.Popen([sys.executable, "-I", str(RECEIVER), str(port)], stdout=output)
        try:
            yield [*(flag.replace(":4318/", f":{port}/") for flag in TRACES), SOON]
        finally:
            receiver.terminate()
            receiver.wait(300)


def image(work: Path) -> Path:
    """Collects the parts of the image that the slot reads."""
    folder = work / "image"
    shutil.copytree(STAND_INS / "all_models" / "tensorrt_llm" / "1", folder)
    for package in ("tensorrt_llm", "openai"):
        shutil.copytree(STAND_INS / "packages" / package, folder / package)
    repaired = folder / "openai/types/responses/response_content_part_added_event.py"
    repaired.write_text("class PartReasoningText: ...\n")
    return folder


def llm(weights: Path) -> ServerSlice:
    """Returns only the plan's LLM, on these weights."""
    server = plan(**main()).slices[0].servers[0]
    (model,) = [model for model in server.models if model.kind == "llm"]
    kept = {name: model.settings[name] for name in ("backend", "max_batch_size", "triton_config")}
    model_settings = kept | {
        "model": str(weights),
        "max_seq_len": CONTEXT_TOKENS,
        "guided_decoding_backend": "xgrammar",
    }
    return replace(server, models=(replace(model, name="llama", settings=model_settings),))


@contextlib.asynccontextmanager
async def running_gateway(scene: Scene, folder: Path, **more: int) -> AsyncIterator[RunningGateway]:
    """Yields a gateway before that Triton, which needs no key."""
    gateway_settings = settings([scene.triton.grpc], scene.weights, None, **more)
    gateway_settings["models"]["llama"]["context_tokens"] = CONTEXT_TOKENS
    gateway_settings["models"]["nomic"]["dimensions"] = 64
    async with opened(folder, gateway_settings) as app:
        yield RunningGateway(app, app.gateway, [], folder / "settings.json", folder / "none")


def directly(scene: Scene, model: str, parameters: dict[str, Any], **inputs: list[list[str]]) -> list[float]:
    """Returns the values of the model's first output, requested over KServe's HTTP interface."""
    tensors = [
        {"name": name, "datatype": "BYTES", "shape": [len(rows), len(rows[0])], "data": rows[0]}
        for name, rows in inputs.items()
    ]
    body = json.dumps({"inputs": tensors, "parameters": parameters}).encode()
    with urllib.request.urlopen(f"http://{scene.triton.http}/v2/models/{model}/infer", body, timeout=300) as reply:
        return next(output["data"] for output in json.load(reply)["outputs"] if output["name"] != "token_counts")


def running_requests(scene: Scene) -> float:
    """Returns the number of requests that the slot reports as running."""
    with urllib.request.urlopen(f"http://{scene.triton.metrics}/metrics", timeout=300) as page:
        lines = page.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith("enginehouse_llm_running_requests{")]
    return float(line.rpartition(" ")[2])
