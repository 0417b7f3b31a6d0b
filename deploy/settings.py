"""The final settings of each model: keys of llmapi's `model.yaml`, or parameters of our encoders.

Rendering is the role's work.

Only what the model and the release support is ever written: gpt-oss on Hopper gets no fp8 key/value cache, no block
reuse and no chunked prefill. Keys: TensorRT-LLM triton_backend/all_models/llmapi (1.0 to 1.2.1); encoder parameters:
files/triton/encoders/settings.py.
"""

from __future__ import annotations

from deploy.budget import Share, reuses_blocks
from deploy.memory import RESERVE_MIB
from deploy.resolve import Served
from deploy.spec import LLM, Embedder, Encoder

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def settings_of(served: Served, share: Share, path: str) -> dict[str, object]:
    """What the backend of `served` is told; `path` is the directory of its weights."""
    if isinstance(served.model, LLM):
        return llm_settings(served, served.model, share, path)
    return dict(encoder_settings(served, served.model, share, path))


def llm_settings(served: Served, model: LLM, share: Share, path: str) -> dict[str, object]:
    """`model.yaml`: everything outside `triton_config` goes to the LLM constructor."""
    ways = len(share.gpus)
    settings: dict[str, object] = {
        "model": path,
        "backend": "pytorch",
        "tensor_parallel_size": ways,
        "max_batch_size": model.max_batch_size,
        "max_num_tokens": model.max_num_tokens,
        "max_seq_len": model.max_seq_len,
        "kv_cache_config": kv_cache_settings(served, model, share),
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": model.max_batch_size},
        "enable_chunked_prefill": model.chunked_prefill,
        "trust_remote_code": False,
        "triton_config": {
            "max_batch_size": 0,  # one prompt per request; concurrent ones are batched inside the engine
            "decoupled": model.decoupled,
            "cancellation_check_period_ms": 100,
        },
    }
    if model.moe_backend != "auto":
        settings["moe_config"] = {"backend": model.moe_backend}
    if served.shape.experts and ways > 1:
        settings["moe_expert_parallel_size"] = ways  # the TRITON backend splits experts, never one expert
    return settings


def kv_cache_settings(served: Served, model: LLM, share: Share) -> dict[str, object]:
    """The cache as a number of tokens.

    TensorRT-LLM takes the smaller of `max_tokens` and a fraction of what is free at that moment, 0.9 unless told. So
    the fraction is written too, just high enough that the tokens decide: cache / (cache + reserve), in whole percent
    rounded up.
    """
    cache = share.memory.kv_cache_mib
    fraction = min(99, max(90, -(-100 * cache // (cache + RESERVE_MIB)) + 1))
    return {
        "max_tokens": share.kv_cache_tokens,
        "free_gpu_memory_fraction": fraction / 100,
        "enable_block_reuse": reuses_blocks(served),
        "dtype": model.kv_cache.dtype,
    }


def encoder_settings(served: Served, model: Encoder, share: Share, path: str) -> dict[str, str]:
    """Parameters of config.pbtxt, as text."""
    task = model.default_task if isinstance(model, Embedder) else ""
    return {
        "model_path": path,
        # the container sees its server's GPUs only, numbered from 0, and encoders sit on the first
        "device": "cuda:0" if share.gpus else "cpu",
        "dtype": DTYPES[model.dtype],
        "max_tokens": str(model.max_tokens),
        "max_batch_tokens": str(model.max_batch_tokens),
        "max_items": str(model.max_items),
        "default_task": task,
        "memory_mib": str(share.memory.weights_mib + share.memory.workspace_mib),
        "dimensions": str(served.dimensions),
    }
