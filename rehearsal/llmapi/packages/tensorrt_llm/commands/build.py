"""trtllm-build: reads a checkpoint, waits like a build, writes config.json and an engine for each rank.

rehearsal stand-in. It compiles nothing. It refuses, in the real program's words, an unknown architecture, a GPU too
small or of the wrong kind, and inconsistent limits.
"""

import hashlib
import json
import os
import time
from pathlib import Path

from tensorrt_llm import __version__
from tensorrt_llm.stand_in import gpu
from tensorrt_llm.stand_in.flags import build_parser, plugin_names

MODEL_MAP = {
    "LlamaForCausalLM", "QWenForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM", "GPTForCausalLM", "GPT2LMHeadModel", "NemotronForCausalLM", "MedusaForCausalLM",
    "EagleForCausalLM", "ReDrafterForLLaMALM",
}  # fmt: skip
SIZE_BYTES = 2 << 20
SECONDS_PER_GIB = 3
# Number of copies of a step's activations, 2 bytes each; only the order of magnitude matters.
ACTIVATIONS = 24


def main():
    """Writes every rank's engine; returns 0."""
    options = build_parser().parse_args()
    log(f"TensorRT-LLM version: {__version__} (rehearsal stand-in)")
    folder = Path(options.checkpoint_dir or "")
    model = json.loads((folder / "config.json").read_text())
    assert model["architecture"] in MODEL_MAP, f"Unsupported model architecture: {model['architecture']}"
    settings = _settings(options, model)
    _require_gpu(model, settings)
    output, ranks = Path(options.output_dir), model["mapping"]["world_size"]
    output.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        if not (folder / f"rank{rank}.safetensors").is_file():
            raise FileNotFoundError(f"[Errno 2] No such file or directory: '{folder}/rank{rank}.safetensors'")
        _build_rank(output / f"rank{rank}.engine", model, settings, rank)
    (output / "config.json").write_text(
        json.dumps({"version": __version__, "pretrained_config": model, "build_config": settings}, indent=4)
    )
    Path(options.output_timing_cache).write_bytes(b"rehearsal stand-in\n")
    log("Total time of building all engines: 00:00:00")
    return 0


def log(text):
    """Prints in the form of the real logger."""
    print(f"{time.strftime('[%m/%d/%Y-%H:%M:%S]')} [TRT-LLM] [I] {text}", flush=True)


def _settings(options, model):
    values = {key: value for key, value in vars(options).items() if not key.endswith(("_dir", "_timing_cache"))}
    positions = model.get("max_position_embeddings") or 4096
    values["max_seq_len"] = values["max_seq_len"] or positions
    if values["max_seq_len"] > positions:
        log(f"max_seq_len {values['max_seq_len']} is larger than max_position_embeddings {positions}")
    values["max_input_len"] = min(values["max_input_len"], values["max_seq_len"])
    assert values.get("streamingllm") != "enable", "StreamingLLM is no longer supported"
    if values["max_draft_len"] and (values["gather_context_logits"] or values["gather_all_token_logits"]):
        raise AssertionError("Gather context logits is not supported with speculative decoding")
    # Raised without a message, as in the real program, because every sequence adds its draft tokens.
    values["max_num_tokens"] = max(values["max_num_tokens"], values["max_batch_size"] * (values["max_draft_len"] + 1))
    values["plugin_config"] = {name: values.pop(name) for name in plugin_names()}
    return values


def _require_gpu(model, settings):
    sms = {int(sm) for _, _, sm in gpu.gpus()}
    algorithm = model["quantization"]["quant_algo"] or ""
    if algorithm == "NVFP4" and min(sms) < 100:
        raise RuntimeError(f"NVFP4 is not supported on SM {min(sms)}")
    if "FP8" in algorithm and min(sms) < 89:
        raise RuntimeError(f"FP8 is not supported on SM {min(sms)}")
    hidden = model.get("hidden_size") or 1024
    activations = settings["max_num_tokens"] * hidden * 2 * ACTIVATIONS >> 20
    gpu.require_torch_memory(model["weights_mib"])
    gpu.require_builder_memory(model["weights_mib"] + activations)


def _build_rank(path, model, settings, rank):
    """Writes in pieces, so that an interrupted build leaves a part of the file."""
    header = json.dumps(_header(model, settings, rank)).encode() + b"\n"
    body = hashlib.shake_256(header).digest(SIZE_BYTES)
    seconds = model.get("rehearsal_build_seconds", max(1, model["weights_mib"] * SECONDS_PER_GIB / 1024))
    log(f"Build TensorRT engine Unnamed Network {rank}")
    steps = max(1, int(seconds / 0.2))
    with path.open("wb") as engine:
        engine.write(header)
        for step in range(steps):
            engine.write(body[step * SIZE_BYTES // steps : (step + 1) * SIZE_BYTES // steps])
            engine.flush()
            print(f"[TRT] [I] rank {rank}: {(step + 1) * 100 // steps}% of the tactics are timed", flush=True)
            time.sleep(seconds / steps)
    log(f"Engine of rank {rank} serialized, {os.path.getsize(path) >> 20} MiB")


def _header(model, settings, rank):
    quantization = model["quantization"]
    return {
        "rehearsal stand-in": True,
        "checkpoint": model["checkpoint"],
        "sm": gpu.gpus()[0][2],
        "trtllm": __version__,
        "precision": quantization["quant_algo"] or model["dtype"],
        "kv": quantization["kv_cache_quant_algo"] or model["dtype"],
        "drift": model.get("rehearsal_engine_drift"),
        "rank": rank,
        "world_size": model["mapping"]["world_size"],
        "max_seq_len": settings["max_seq_len"],
        "max_num_tokens": settings["max_num_tokens"],
        "max_batch_size": settings["max_batch_size"],
    }
