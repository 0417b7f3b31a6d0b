"""The final settings of each model: keys of llmapi's `model.yaml`, or parameters of our encoders.

The role renders them.

Only settings that the model and the release support are written: gpt-oss on Hopper gets no fp8 key/value cache, no
block reuse and no chunked prefill. Keys: TensorRT-LLM triton_backend/all_models/llmapi (1.0 to 1.2.1) and
tensorrt_llm/llmapi/llm_args.py of two revisions, one of the 1.0 and one of the 1.2 line (read 2026-11-21); encoder
parameters: files/encoders/settings.py. The engine path has its settings in `deploy.engine.runtime`.
"""

import json
import math

from deploy.models.budget import Share, reuses_blocks
from deploy.models.files import speculative_weights_of, weights_path
from deploy.models.memory import MIB, RESERVE_MIB
from deploy.models.prompts import default_task_of
from deploy.models.resolve import Served
from deploy.models.speculation import speculative_of
from deploy.spec import LLM, Draft, Eagle, Embedder, Encoder

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def settings_of(served: Served, share: Share, path: str) -> dict[str, object]:
    """The settings of the backend that serves the model; `path` is the directory of its weights."""
    if isinstance(served.model, LLM):
        return llm_settings(served, served.model, share, path)
    return dict(encoder_settings(served, served.model, share, path))


def llm_settings(served: Served, model: LLM, share: Share, path: str) -> dict[str, object]:
    """`model.yaml`: everything outside `triton_config` goes to the LLM constructor, which refuses unknown names."""
    settings: dict[str, object] = {
        "model": path,
        "backend": "pytorch",
        **parallel_settings(served, model, share),
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
            "cancellation_check_period_ms": model.cancellation_check_period_ms,
        },
    }
    return settings | optional_settings(served, model)


def parallel_settings(served: Served, model: LLM, share: Share) -> dict[str, object]:
    """The settings that split the model; experts are spread whole over all GPUs unless the inventory differs."""
    pipeline = max(model.parallel.pipeline, 1)
    tensor = model.parallel.tensor or len(share.gpus) // pipeline
    settings: dict[str, object] = {"tensor_parallel_size": tensor}
    if pipeline > 1:
        settings["pipeline_parallel_size"] = pipeline
    if served.shape.experts and tensor > 1:
        # the TRITON backend (gpt-oss on Hopper) distributes whole experts
        settings["moe_expert_parallel_size"] = model.parallel.expert or math.gcd(tensor, served.shape.experts)
    return settings


def optional_settings(served: Served, model: LLM) -> dict[str, object]:
    """Arguments that are written only if the inventory sets them, so that a release's own defaults apply."""
    settings: dict[str, object] = {}
    if model.precision in ("float16", "bfloat16"):
        settings["dtype"] = model.precision
    if model.moe_backend != "auto":
        settings["moe_config"] = {"backend": model.moe_backend}
    if model.scheduler != "guaranteed_no_evict":
        settings["scheduler_config"] = {"capacity_scheduler_policy": model.scheduler.upper()}
    if model.guided_decoding:
        settings["guided_decoding_backend"] = "xgrammar"
    if model.speculative:
        settings["speculative_config"] = speculative_settings(served)
    return settings | (lora_settings(model) if model.lora else {})


def speculative_settings(served: Served) -> dict[str, object]:
    """A draft model, or an EAGLE-3 head that drafts a chain; names are from llm_args.py of 1.0 to 1.2."""
    speculative, beside = speculative_of(served), speculative_weights_of(served)
    assert beside and isinstance(speculative, (Draft, Eagle)), "the checks let no other speculation onto this path"
    return {
        "decoding_type": "Eagle" if isinstance(speculative, Eagle) else "DraftTarget",
        "max_draft_len": speculative.tokens,
        "speculative_model_dir": weights_path(beside),
    }


def lora_settings(model: LLM) -> dict[str, object]:
    """Adapters by rank and module, and the number of them kept in host memory."""
    assert model.lora, "asked only where there are adapters"
    lora = model.lora
    return {
        "enable_lora": True,
        "lora_config": {
            "max_lora_rank": lora.max_rank,
            "lora_target_modules": list(lora.target_modules),
            "max_loras": len(lora.adapters),
            "max_cpu_loras": len(lora.adapters),
        },
        "peft_cache_config": {"host_cache_size": lora.host_mib * MIB},
    }


def kv_cache_settings(served: Served, model: LLM, share: Share) -> dict[str, object]:
    """The cache as a number of tokens.

    TensorRT-LLM takes the smaller of `max_tokens` and a fraction of the memory that is free at that moment, 0.9 by
    default. So the fraction is written too, just high enough that the tokens decide: cache / (cache + reserve), in
    whole percent rounded up. A dtype is "fp8" or the checkpoint's type: that backend knows no other words.
    """
    cache = share.memory.kv_cache_mib
    fraction = min(99, max(90, -(-100 * cache // (cache + RESERVE_MIB)) + 1))
    settings: dict[str, object] = {
        "max_tokens": share.kv_cache_tokens,
        "free_gpu_memory_fraction": fraction / 100,
        "enable_block_reuse": reuses_blocks(served),
        "dtype": "fp8" if model.kv_cache.dtype == "fp8" else "auto",
    }
    return settings | ({"host_cache_size": model.kv_cache.host_mib * MIB} if model.kv_cache.host_mib else {})


def encoder_settings(served: Served, model: Encoder, share: Share, path: str) -> dict[str, str]:
    """Parameters of config.pbtxt, as text."""
    task = model.default_task if isinstance(model, Embedder) else ""
    if isinstance(model, Embedder) and served.local and not task:
        task = default_task_of(served.local.config) if served.prefixes else ""
    # defaults of the backend are left out, so that new settings do not rename existing releases
    settings: dict[str, str] = {} if model.products == "dtype" else {"products": model.products}
    settings |= {"streams": str(model.streams)} if share.gpus and model.streams > 1 else {}
    if prefixes := served.prefixes:
        settings["prefixes"] = json.dumps(dict(prefixes), ensure_ascii=False)
    if served.known and served.known.least_dimensions:
        settings["least_dimensions"] = str(served.known.least_dimensions)
    return settings | {
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
