"""The arguments of TensorRT-LLM 1.2's LLM(...), and the refusal of every other one (rehearsal stand-in)."""


def _names(text):
    return set(text.split())


LLM_ARGUMENTS = _names("""
    model tokenizer tokenizer_mode skip_tokenizer_init trust_remote_code tensor_parallel_size dtype revision
    tokenizer_revision pipeline_parallel_size context_parallel_size gpus_per_node moe_cluster_parallel_size
    moe_tensor_parallel_size moe_expert_parallel_size enable_attention_dp cp_config load_format enable_lora lora_config
    kv_cache_config enable_chunked_prefill guided_decoding_backend batched_logits_processor iter_stats_max_iterations
    request_stats_max_iterations peft_cache_config scheduler_config cache_transceiver_config sparse_attention_config
    speculative_config max_batch_size max_input_len max_seq_len max_beam_width max_num_tokens gather_generation_logits
    num_postprocess_workers postprocess_tokenizer_dir reasoning_parser decoding_config backend otlp_traces_endpoint
    return_perf_metrics orchestrator_type garbage_collection_gen0_threshold cuda_graph_config attention_dp_config
    disable_overlap_scheduler moe_config attn_backend sampler_type enable_iter_perf_stats enable_iter_req_stats
    print_iter_log perf_metrics_max_requests batch_wait_timeout_ms batch_wait_timeout_iters batch_wait_max_tokens_ratio
    torch_compile_config enable_autotuner enable_layerwise_nvtx_marker enable_min_latency stream_interval
    force_dynamic_quantization allreduce_strategy checkpoint_loader checkpoint_format kv_connector_config
    mm_encoder_only
""")

NESTED_ARGUMENTS = {
    "kv_cache_config": _names("""
        enable_block_reuse max_tokens max_attention_window sink_token_length free_gpu_memory_fraction host_cache_size
        onboard_blocks cross_kv_cache_fraction secondary_offload_min_priority event_buffer_max_size
        enable_partial_reuse copy_on_partial_reuse use_uvm max_gpu_total_bytes attention_dp_events_gather_period_ms
        dtype mamba_ssm_cache_dtype tokens_per_block
    """),
    "cuda_graph_config": {"batch_sizes", "max_batch_size", "enable_padding"},
    "moe_config": _names("""
        backend max_num_tokens load_balancer disable_finalize_fusion use_low_precision_moe_combine
    """),
    "scheduler_config": {"capacity_scheduler_policy", "context_chunking_policy", "dynamic_batch_config"},
    "lora_config": _names("""
        lora_dir lora_ckpt_source max_lora_rank lora_target_modules trtllm_modules_to_hf_modules max_loras
        max_cpu_loras swap_gate_up_proj
    """),
    "peft_cache_config": _names("""
        num_host_module_layer num_device_module_layer optimal_adapter_size max_adapter_size num_put_workers
        num_ensure_workers num_copy_streams max_pages_per_block_host max_pages_per_block_device device_cache_percent
        host_cache_size lora_prefetch_dir
    """),
    "speculative_config": _names("""
        decoding_type max_draft_len max_total_draft_tokens speculative_model_dir max_concurrency load_format
        acceptance_window acceptance_length_threshold eagle_choices greedy_sampling posterior_threshold
        use_dynamic_tree dynamic_tree_max_topK num_eagle_layers max_non_leaves_per_layer eagle3_one_model
        eagle3_layers_to_capture
    """),
}


class ValidationError(ValueError):
    """Error in pydantic's words, which the real LLM(...) raises."""


def check(arguments):
    """Refuses all unknown arguments in one message."""
    unknown = [(name, value) for name, value in arguments.items() if name not in LLM_ARGUMENTS]
    for parent, known in NESTED_ARGUMENTS.items():
        values = arguments.get(parent) or {}
        unknown += [(f"{parent}.{name}", value) for name, value in values.items() if name not in known]
    if unknown:
        lines = [
            f"{name}\n  Extra inputs are not permitted [type=extra_forbidden, input_value={value!r}, "
            f"input_type={type(value).__name__}]"
            for name, value in unknown
        ]
        count = f"{len(unknown)} validation error{'s' if len(unknown) > 1 else ''} for TorchLlmArgs"
        raise ValidationError("\n".join([count, *lines]))
