"""Parameters that Triton passes to a finished engine at load: those of the `inflight_batcher_llm` models, as text.

Pure. Only run-time keys of `deploy.catalog.runtime_keys` are ever written; compiled-in settings are in the rest of
`deploy.engine`. Settings that both must agree on (paged context, beam width, speculation) are read from the flags that
the engine is built with. Rendering is the role's work.

The key/value cache is a number of tokens. TensorRT-LLM takes the smaller of that and a fraction of what is free at the
moment of loading, so the fraction is written just high enough that the tokens decide.
"""

from collections.abc import Mapping

from deploy.catalog.runtime_keys import BOOLEANS, RUNTIME_KEYS, RuntimeKey, choices_of, mandatory_keys
from deploy.catalog.versions import at_least
from deploy.models.budget import Share, reuses_blocks
from deploy.models.memory import MIB, RESERVE_MIB
from deploy.models.resolve import Served
from deploy.models.speculation import tree_of
from deploy.slices.host import EngineSlice
from deploy.spec import LLM, Eagle, Lookahead, LoRA, Medusa, ReDrafter

CACHE = "/var/cache/enginehouse"
"""The only writable directory of a serving container; it lives as long as its release."""

Parameters = dict[str, str]


def runtime_settings(
    served: Served, share: Share, target: EngineSlice, draft: EngineSlice | None, weights_path: str, trtllm: str
) -> dict[str, object]:
    """Parameters of each model of the repository, by the model's role; `queue` holds Triton's own limits.

    `tensorrt_llm_draft` is there only if a draft model is.
    """
    model = served.model
    assert isinstance(model, LLM), "an encoder has no engine"
    settings: dict[str, object] = {
        "tensorrt_llm": _checked(_engine(served, model, share, target, weights_path, trtllm), trtllm),
        "preprocessing": {
            "tokenizer_dir": weights_path,
            "add_special_tokens": "True",
            "gpt_model_path": target.path,
            "multimodal_model_path" if at_least(trtllm, "0.19") else "visual_model_path": "",
            "max_num_images": "1",
        },
        "postprocessing": {"tokenizer_dir": weights_path, "skip_special_tokens": "True"},
        "tensorrt_llm_bls": _bls(model, draft),
        "queue": {"max_batch_size": model.max_batch_size, "max_queue_size": model.max_queue_size},
        "logits": {"context": model.engine.context_logits, "generation": model.engine.generation_logits},
        "adapters": [
            {"name": adapter.name, "task_id": adapter.task_id}
            for adapter in (model.lora.adapters if model.lora else ())
        ],
    }
    if draft:
        settings["tensorrt_llm_draft"] = _checked(_draft(served, model, share, draft, trtllm), trtllm)
    return settings


def _bls(model: LLM, draft: EngineSlice | None) -> Parameters:
    return {
        "accumulate_tokens": "true",  # for stop words of several tokens, and for whole multi-byte letters
        "tensorrt_llm_model_name": f"{model.name}_tensorrt_llm",
        "tensorrt_llm_draft_model_name": f"{model.name}_tensorrt_llm_draft" if draft else "",
        "multimodal_encoders_name": "",
    }


def _engine(
    served: Served, model: LLM, share: Share, target: EngineSlice, weights_path: str, trtllm: str
) -> Parameters:
    guided = _guided(model, weights_path) if model.guided_decoding else {}
    parameters = _shared(served, model, share, target, trtllm)
    parameters |= _speculation(model) | _lora(model.name, model.lora) | guided
    parameters |= {"exclude_input_in_output": "true", "normalize_log_probs": "true"}
    return _fill(parameters, trtllm)


def _draft(served: Served, model: LLM, share: Share, draft: EngineSlice, trtllm: str) -> Parameters:
    """Parameters of the draft: as many cache tokens as the target; no adapters, no grammar, no heads."""
    own = {
        # the decoder of tensorrt_llm_bls reads the draft's answer after the prompt's tokens itself
        "exclude_input_in_output": "true",
        # host memory is counted for the target only: a draft recomputes a prompt quickly
        "kv_cache_host_memory_bytes": "0",
    }
    return _fill(_shared(served, model, share, draft, trtllm) | own, trtllm)


def _shared(served: Served, model: LLM, share: Share, engine: EngineSlice, trtllm: str) -> Parameters:
    """Parameters that target and draft share."""
    paged = _flag(engine, "use_paged_context_fmha") == "enable"
    cache = share.memory.kv_cache_mib
    fraction = min(99, max(90, -(-100 * cache // (cache + RESERVE_MIB)) + 1))
    return {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": engine.path,
        "max_beam_width": _flag(engine, "max_beam_width") or "1",
        "batch_scheduler_policy": model.scheduler,
        "decoding_mode": "beam_search" if _flag(engine, "max_beam_width") not in ("", "1") else "top_k_top_p",
        "max_tokens_in_paged_kv_cache": str(share.kv_cache_tokens),
        "kv_cache_free_gpu_mem_fraction": str(fraction / 100),
        "kv_cache_host_memory_bytes": str(model.kv_cache.host_mib * MIB),
        # both read cached tokens while they compute a prompt, which needs the engine's paged context kernel
        "enable_kv_cache_reuse": _truth(paged and reuses_blocks(served, trtllm)),
        "enable_chunked_context": _truth(paged and model.chunked_prefill),
        "cancellation_check_period_ms": str(model.cancellation_check_period_ms),
        "stats_check_period_ms": "100",
        # the container sees its server's GPUs only, numbered from 0; rank n takes the n-th
        "gpu_device_ids": ",".join(str(rank) for rank in range(engine.world_size)),
        "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
    }


def _speculation(model: LLM) -> Parameters:
    """Run-time parameters of the engine's speculation; none if a draft model speculates."""
    speculative = model.speculative
    if isinstance(speculative, Medusa):
        return {"decoding_mode": "medusa"} | _tree("medusa_choices", speculative.choices)
    if isinstance(speculative, Eagle):
        return {"decoding_mode": "eagle"} | _tree("eagle_choices", speculative.choices)
    if isinstance(speculative, ReDrafter):
        return {"decoding_mode": "redrafter"}
    if isinstance(speculative, Lookahead):
        return {
            "decoding_mode": "lookahead",
            "lookahead_window_size": str(speculative.window),
            "lookahead_ngram_size": str(speculative.ngram),
            "lookahead_verification_set_size": str(speculative.verification),
        }
    return {}


def _tree(key: str, choices: str) -> Parameters:
    """The tree in the backend's format, `{0}, {0, 0}`. With square brackets, the backend warns and uses its own tree.

    Empty for the name of the backend's own tree, because the backend does not read names.
    """
    paths = tree_of(choices)
    return {key: ", ".join("{" + ", ".join(map(str, path)) + "}" for path in paths)} if paths else {}


def _lora(name: str, lora: LoRA | None) -> Parameters:
    """Sizes of the adapter caches; the GPU's is a share of the memory beyond the key/value cache: cache + reserve."""
    if lora is None:
        return {}
    return {
        "lora_cache_optimal_adapter_size": str(lora.max_rank),
        "lora_cache_max_adapter_size": str(lora.max_rank),
        "lora_cache_gpu_memory_fraction": str(round(lora.gpu_mib / (lora.gpu_mib + RESERVE_MIB), 4)),
        "lora_cache_host_memory_bytes": str(lora.host_mib * MIB),
        "lora_prefetch_dir": lora_directory(name),
    }


def _guided(model: LLM, weights_path: str) -> Parameters:
    return {
        "guided_decoding_backend": "xgrammar",
        "tokenizer_dir": weights_path,
        "xgrammar_tokenizer_info_path": tokenizer_info_path(model.name),
    }


def lora_directory(model: str) -> str:
    """The directory of a model's adapters in TensorRT-LLM's form, one folder per task; made at the server's start."""
    return f"{CACHE}/lora/{model}"


def tokenizer_info_path(model: str) -> str:
    """The path of xgrammar's description of a model's tokenizer, which the image's own example makes at the start."""
    return f"{CACHE}/xgrammar/{model}/xgrammar_tokenizer_info.json"


def _flag(engine: EngineSlice, name: str) -> str:
    return next((value for flag, value in engine.flags if flag.lstrip("-") == name), "")


def _truth(claim: bool) -> str:
    return "true" if claim else "false"


def _fill(parameters: Mapping[str, str], trtllm: str) -> Parameters:
    """`parameters` with every mandatory key, empty if no value is given, without keys younger than the release."""
    mandatory = {key.name: key.fill for key in mandatory_keys(trtllm)}
    too_young = {key.name for key in RUNTIME_KEYS.values() if key.since and not at_least(trtllm, key.since)}
    return {name: value for name, value in {**mandatory, **parameters}.items() if name not in too_young}


def _checked(parameters: Parameters, trtllm: str) -> Parameters:
    """`parameters` sorted by key; asserts that the backend knows each key and takes each value."""
    for name, value in parameters.items():
        key = RUNTIME_KEYS.get(name)
        assert key, f"{name} is not a run-time key of the tensorrtllm backend"
        assert takes(key, value, trtllm), f"{name} does not take {value!r}"
    missing = [key.name for key in mandatory_keys(trtllm) if key.name not in parameters]
    assert not missing, f"missing: {missing}"
    return dict(sorted(parameters.items()))


def takes(key: RuntimeKey, value: str, trtllm: str) -> bool:
    """True if `value` is of the key's kind; an empty path means no file."""
    if key.choices:
        return value in choices_of(key, trtllm)
    if key.kind == "number":
        return value.isdigit()
    if key.kind == "fraction":
        return value.replace(".", "", 1).isdigit() and 0 <= float(value) <= 1
    if key.kind == "bool":
        return value in BOOLEANS
    return key.kind != "path" or value == "" or value.startswith("/")
