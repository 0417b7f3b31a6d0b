"""Engines of a few bytes in the stand-in backend's format, and a planned model for one."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from deploy.engine.runtime import runtime_settings
from deploy.models.budget import Share
from deploy.models.resolve import serve
from deploy.slices.host import EngineSlice, MemorySlice, ModelSlice, ServerSlice, WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.spec import LLM, Draft, Weights
from deploy.spec.surroundings import Surroundings
from rehearsal.tokenizers_made import harmony

RELEASES = {"0.18.2": "2.57.0", "1.0.0": "2.62.0", "1.1.0": "2.66.0", "1.2.1": "2.71.0"}
"""TensorRT-LLM and Triton core of 25.04, 25.10, 26.02 and 26.07."""
REVISION = "0" * 40


def write_tokenizer(folder: Path) -> Tokenizer:
    """Writes a tokenizer with one token per byte; token 257 ends an answer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = harmony([])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 257}))
    return tokenizer


def write_engine(folder: Path, trtllm: str = "1.2.1", **changes: Any) -> Path:
    """Writes an engine's directory; `world_size`, `sm` and `checkpoint` go into its header, other changes by flag."""
    folder.mkdir(parents=True)
    ranks, sm = changes.pop("world_size", 1), changes.pop("sm", "90")
    checkpoint = changes.pop("checkpoint", "0" * 16)
    build = {"max_batch_size": 8, "max_input_len": 120, "max_seq_len": 128, "max_beam_width": 2, "max_num_tokens": 512}
    build |= {"use_paged_context_fmha": "enable", "gather_context_logits": False, "gather_generation_logits": False}
    mapping = {"world_size": ranks, "tp_size": ranks, "pp_size": 1}
    pretrained = {"architecture": "LlamaForCausalLM", "dtype": "bfloat16", "vocab_size": 300, "mapping": mapping}
    configuration = {"version": trtllm, "pretrained_config": pretrained, "build_config": build | changes}
    (folder / "config.json").write_text(json.dumps(configuration))
    header = {"rehearsal stand-in": True, "checkpoint": checkpoint, "sm": sm, "trtllm": trtllm, "precision": "FP8"}
    for rank in range(ranks):
        (folder / f"rank{rank}.engine").write_bytes(json.dumps(header | {"drift": None}).encode() + b"\n\0\0")
    return folder


def an_engine(path: Path, role: str = "target", **flags: str) -> EngineSlice:
    """Returns the plan's slice of an engine; `flags` are those of trtllm-build."""
    built = {"max_beam_width": "2", "use_paged_context_fmha": "enable"} | flags
    return EngineSlice(
        model="llama", role=role, fingerprint="0123456789abcdef", fields={}, name="llama", path=str(path),
        staging=f"{path}.staging", precision="fp8", kv_dtype="fp8", tensor=1, pipeline=1, expert=0, sm="90", gpus=(0,),
        devices=("nvidia.com/gpu=0",), steps=(), flags=tuple((f"--{name}", value) for name, value in built.items()),
        flags_row="", weights=(), calibration="", size_mib=1, scratch_mib=2, gpu_mib=3, host_mib=4,
    )  # fmt: skip


def an_llm(**changes: Any) -> LLM:
    """Returns a small LLM on the engine path."""
    settings: dict[str, Any] = {
        "name": "llama", "checkpoint": "llama-3.1-8b-instruct", "weights": Weights.hub("example/llama", REVISION),
        "path": "engine", "max_batch_size": 8, "max_seq_len": 128,
    }  # fmt: skip
    return LLM(**settings | changes)


def a_model(
    target: EngineSlice, weights: Path, trtllm: str = "1.2.1", draft: EngineSlice | None = None, **changes: Any
) -> ModelSlice:
    """Returns the model's slice in the plan."""
    llm = an_llm(**changes)
    served = serve(llm, Surroundings(today=datetime.date(2026, 11, 20)))
    assert served is not None
    memory = MemorySlice(weights_mib=8000, context_mib=500, workspace_mib=500, kv_cache_mib=4000)
    share = Share(model=llm.name, gpus=(0,), memory=memory, kv_cache_tokens=4096)
    files = WeightsSlice(
        model=llm.name, repository="example/llama", revision=REVISION, directory="", fetch_on="host", files=(),
        size_mib=1,
    )  # fmt: skip
    return ModelSlice(
        name=llm.name, kind="llm", path="engine", reason="", architecture="LlamaForCausalLM", weights=files,
        memory=memory, kv_cache_tokens=4096, dimensions=0, max_batch_size=llm.max_batch_size,
        max_queue_size=llm.max_queue_size, max_queue_delay_microseconds=0, decoupled=llm.decoupled,
        settings=runtime_settings(served, share, target, draft, str(weights), trtllm),
        engines=(target, draft) if draft else (target,),
        adapters=tuple(replace(files, model=adapter.name) for adapter in (llm.lora.adapters if llm.lora else ())),
    )  # fmt: skip


def a_server(*models: ModelSlice, trtllm: str = "1.2.1", **changes: Any) -> ServerSlice:
    """Returns a server of these models."""
    image = ImageSlice(
        reference="nvcr.io/nvidia/tritonserver:x-trtllm-python-py3", digest="", triton_core=RELEASES[trtllm],
        trtllm=trtllm, cuda="13.1.0", repairs=(), size_mib=1,
    )  # fmt: skip
    server = ServerSlice(
        name="main", gpus=(0,), http_port=8000, grpc_port=8001, metrics_port=8002, address="127.0.0.1", log_verbose=0,
        stop_seconds=90, start_seconds=600, shm_mib=2048, image=image, models=models, devices=("nvidia.com/gpu=0",),
    )  # fmt: skip
    return replace(server, **changes)


def a_draft(**changes: Any) -> Draft:
    """Returns a draft model."""
    return Draft(checkpoint="llama-3.1-8b-instruct", weights=Weights.hub("example/draft", REVISION), **changes)
