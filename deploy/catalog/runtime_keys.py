"""Run-time settings: keys that the `tensorrtllm` Triton backend reads from `parameters` of its config.pbtxt.

Source: triton-inference-server/tensorrtllm_backend all_models/inflight_batcher_llm and inflight_batcher_llm/src at
v0.16.0, v0.18.2 and v0.19.0, NVIDIA/TensorRT-LLM triton_backend/all_models at 0c8de69a1c; read 2026-11-20. The
backend ends with TensorRT-LLM 1.2.1.
"""

from dataclasses import dataclass

from deploy.catalog.versions import at_least, version

BOOLEANS = ("True", "true", "TRUE", "1", "False", "false", "FALSE", "0")
"""The texts the backend takes for yes and no."""


@dataclass(frozen=True, kw_only=True)
class RuntimeKey:
    """A key; `kind` is the type of its text: word, number, fraction, bool or path."""

    name: str
    kind: str = "word"
    choices: tuple[str, ...] = ()
    mandatory_from: str = ""
    """The first TensorRT-LLM whose backend does not load without the key; empty when it may be left out."""
    fill: str = ""
    """Value to write if the key is mandatory and no value is known."""
    since: str = ""
    """The first TensorRT-LLM whose template has the key; empty if the oldest offered one has it."""


_POLICIES = ("guaranteed_no_evict", "max_utilization")
_DECODING = ("top_k", "top_p", "top_k_top_p", "beam_search", "medusa", "redrafter", "lookahead", "eagle")
_BATCHING = ("inflight_fused_batching", "inflight_batching", "V1", "v1")

_ROWS = (
    RuntimeKey(name="gpt_model_type", choices=_BATCHING, mandatory_from="0", fill="inflight_fused_batching"),
    RuntimeKey(name="gpt_model_path", kind="path", mandatory_from="0", fill="/path/to/engine"),
    RuntimeKey(name="encoder_model_path", kind="path"),
    RuntimeKey(name="tokenizer_dir", kind="path", mandatory_from="0.19", since="0.19"),
    RuntimeKey(name="xgrammar_tokenizer_info_path", kind="path", mandatory_from="0.19", since="0.19"),
    RuntimeKey(name="guided_decoding_backend", choices=("xgrammar", ""), mandatory_from="0.19", since="0.19"),
    RuntimeKey(name="batch_scheduler_policy", choices=_POLICIES),
    RuntimeKey(name="decoding_mode", choices=_DECODING),
    RuntimeKey(name="executor_worker_path", kind="path"),
    RuntimeKey(name="lora_prefetch_dir", kind="path", since="0.19"),
    *(
        RuntimeKey(name=name, kind="number")
        for name in (
            *("max_beam_width", "max_tokens_in_paged_kv_cache", "kv_cache_host_memory_bytes", "sink_token_length"),
            *("cancellation_check_period_ms", "stats_check_period_ms", "iter_stats_max_iterations"),
            *("request_stats_max_iterations", "recv_poll_period_ms", "lora_cache_optimal_adapter_size"),
            *("lora_cache_max_adapter_size", "lora_cache_host_memory_bytes", "cuda_graph_cache_size"),
        )
    ),
    *(
        RuntimeKey(name=name, kind="number", since="0.19")
        for name in ("num_nodes", "lookahead_window_size", "lookahead_ngram_size", "lookahead_verification_set_size")
    ),
    *(
        RuntimeKey(name=name, kind="fraction")
        for name in (
            *("kv_cache_free_gpu_mem_fraction", "cross_kv_cache_fraction", "lora_cache_gpu_memory_fraction"),
            "gpu_weights_percent",
        )
    ),
    *(
        RuntimeKey(name=name, kind="bool")
        for name in (
            *("kv_cache_onboard_blocks", "enable_kv_cache_reuse", "enable_chunked_context", "normalize_log_probs"),
            *("exclude_input_in_output", "speculative_decoding_fast_logits", "enable_context_fmha_fp32_acc"),
            *("multi_block_mode", "cuda_graph_mode", "enable_trt_overlap"),
        )
    ),
    *(
        RuntimeKey(name=name)
        for name in (
            *("max_attention_window_size", "gpu_device_ids", "participant_ids", "medusa_choices", "eagle_choices"),
            "FORCE_CPU_ONLY_INPUT_TENSORS",
        )
    ),
)

RUNTIME_KEYS: dict[str, RuntimeKey] = {row.name: row for row in _ROWS}

RENAMED_KEYS = {
    "engine_dir": "gpt_model_path",
    "batching_strategy": "gpt_model_type",
    "encoder_engine_dir": "encoder_model_path",
    "worker_path": "executor_worker_path",
}
"""Names of template variables, or of older releases, and the key the backend reads."""

NEVER_KEYS = {
    "max_num_sequences": "no backend reads it; the limit is max_batch_size of the engine and of this file",
}
"""Keys guides write and no release has ever read."""


def mandatory_keys(trtllm: str) -> tuple[RuntimeKey, ...]:
    return tuple(key for key in RUNTIME_KEYS.values() if key.mandatory_from and at_least(trtllm, key.mandatory_from))


def choices_of(key: RuntimeKey, trtllm: str) -> tuple[str, ...]:
    """The words that a key takes in this version: static batching was removed in 0.19."""
    return tuple(word for word in key.choices if word not in ("V1", "v1") or version(trtllm) < (0, 20))
