"""A deployed server on this computer: the real Triton with a planned release, small models, no container.

The answers of systemd, Docker and the card are invented. The card's memory is the planned memory of the currently
loaded models, so that a measurement of it can be judged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import checkpoints
from deploy.slices.host import ServerSlice
from deploy.spec import LLM, Checkpoint, Embedder, KVCache, Reranker, Weights
from rehearsal.real_gpu.card import USED
from rehearsal.real_gpu.llm import lay
from rehearsal.real_gpu.measure import directory
from rehearsal.real_gpu.served import Deployed
from rehearsal.real_gpu.weights import EMBEDDER, LLAMA, LLAMA_TINY, RERANKER
from roles._shipping import places
from roles.triton.defaults import Defaults
from roles.triton.flags import HEADER, RESTRICTED, flags
from roles.triton.render import render
from tests.encoders import real_triton
from tests.ports import free_ports
from tests.unit.samples import main, plan

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "rehearsal" / "llmapi"
KEY = "a-key"
CALM = {"systemctl": "InvocationID=1", "docker": "the container", "journalctl": "", "date": "2026-11-23 12:00:00"}

BGE, NOMIC = (
    Checkpoint(
        architecture=architecture,
        parameters=500_000,
        layers=2,
        hidden=64,
        heads=4,
        intermediate=128,
        vocabulary=checkpoints.SMALL_ENTRIES,
        positions=514,
    )
    for architecture in ("XLMRobertaForSequenceClassification", "NomicBertModel")
)
TINY = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=490_000,
    layers=4,
    hidden=64,
    heads=4,
    kv_heads=2,
    intermediate=128,
    vocabulary=LLAMA_TINY["vocab_size"],
    positions=4096,
)


def own(name: str) -> Weights:
    """Returns a repository of that name, which no hub has."""
    return Weights.hub(f"example/{name}", "b" * 40)


MODELS = (
    Reranker(name="bge", checkpoint=BGE, weights=own(RERANKER), max_batch_tokens=2048),
    Embedder(
        name="nomic", checkpoint=NOMIC, weights=own(EMBEDDER), max_batch_tokens=2048, default_task="search_document"
    ),
    LLM(
        name="llama",
        checkpoint=TINY,
        weights=own(LLAMA),
        kv_cache=KVCache(tokens=4096),
        max_batch_size=8,
        max_seq_len=1024,
        max_num_tokens=1024,
    ),
)


def planned() -> ServerSlice:
    """Returns the H100's plan of the models, on three free ports, for this computer's Triton."""
    http, grpc, metrics = free_ports(3)
    ports = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics, "address": "127.0.0.1"}
    server = plan(**main(*MODELS, **ports), own_random_weights=("bge", "nomic", "llama")).slices[0].servers[0]
    return replace(server, image=replace(server.image, triton_core="2.51.0"))


@contextmanager
def deployed(work: Path, checkpoints_at: Path) -> Iterator[Deployed]:
    """Runs the planned server with every model loaded, with the host's `places` in `work`."""
    server = planned()
    tuned = {
        model.name: model.settings | {"model_path": str(checkpoints_at / directory(model))}
        | {"device": "cpu", "dtype": "fp32", "memory_mib": "0"}
        if model.kind != "llm"
        else model.settings | {"model": str(checkpoints_at / directory(model))}
        for model in server.models
    }  # fmt: skip
    here = replace(server, models=tuple(replace(model, settings=tuned[model.name]) for model in server.models))
    release, runtime = work / "servers/main/current", work / "run/triton-main"
    runtime.mkdir(parents=True)
    (runtime / "key").write_text(KEY)
    for path, content in render(here, Defaults()).items():
        (release / path).parent.mkdir(parents=True, exist_ok=True)
        (release / path).write_bytes(content)
    with _triton(work, release, server):
        deployed = Deployed(server, Stub(server, work / "triton.log"), "127.0.0.1")
        for model in server.models:
            deployed.load(model)
        yield deployed


@contextmanager
def _triton(work: Path, release: Path, server: ServerSlice) -> Iterator[None]:
    home = real_triton.installation()
    triton, log = home / "pytriton" / "tritonserver", work / "triton.log"
    command = [str(triton / "bin" / "tritonserver"), f"--model-repository={release}/models", *flags(server)]
    command += [f"--backend-directory={triton / 'backends'}", "--exit-timeout-secs=2"]
    for kind in ("http", "grpc", "metrics"):
        command += [f"--{kind}-address=127.0.0.1", f"--{kind}-port={getattr(server, f'{kind}_port')}"]
    restricted = f"{','.join(RESTRICTED)}:{HEADER}={KEY}"
    command += [f"--http-restricted-api={restricted}", f"--grpc-restricted-protocol={restricted}"]
    packages = real_triton.link_packages(work / "packages", home)
    for package in ("tensorrt_llm", "openai"):
        shutil.copytree(STAND_INS / "packages" / package, packages / package, symlinks=True)
    lay(packages)
    repaired = packages / "openai/types/responses/response_content_part_added_event.py"
    repaired.write_text("class PartReasoningText: ...\n")
    slot = STAND_INS / "all_models" / "tensorrt_llm" / "1"
    surroundings = os.environ | {"ENGINEHOUSE_LLMAPI": str(slot), "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=packages, stdout=output, stderr=subprocess.STDOUT, env=surroundings)
        try:
            real_triton._await(process, server.http_port, log)
            yield
        finally:
            process.terminate()
            process.wait(60)


class Stub:
    """The machine: real files, program answers of a healthy machine, and the card's planned memory."""

    def __init__(self, server: ServerSlice, log: Path) -> None:
        self.server, self.log, self.is_up = server, log, True

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300) -> subprocess.CompletedProcess[str]:
        """Returns the ended command."""
        word = command.split()[0]
        if command.endswith(f"triton@{self.server.name}.service"):
            self.is_up = not command.startswith("systemctl stop")
        if command == USED:
            output = str(self.used_mib())
        elif command.endswith("--grep 'MiB held; '"):
            output = self.log.read_text()
        elif word == "cat" and "/sys/fs/cgroup" not in command:
            output = Path(command.split()[1]).read_text()
        else:
            output = CALM.get(word, "")
        return subprocess.CompletedProcess(command, 0, output, "")

    def used_mib(self) -> int:
        """Returns the planned MiB of tritonserver and the loaded models; 0 while it is stopped."""
        if not self.is_up:
            return 0
        index = json.loads(Deployed(self.server, self, "127.0.0.1")._tell("/v2/repository/index"))
        ready = {entry["name"] for entry in index if entry.get("state") == "READY"}
        loaded = [model.memory for model in self.server.models if model.name in ready]
        return self.server.overhead_mib + sum(memory.total_mib for memory in loaded)


def patched(monkeypatch: Any, work: Path) -> None:
    """Moves the host's `places` into `work`."""
    monkeypatch.setattr(places, "SERVERS", str(work / "servers"))
    monkeypatch.setattr(places, "RUNTIME", str(work / "run"))
