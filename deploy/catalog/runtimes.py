"""Programs that serve an LLM in their own container beside Triton: releases, images, flags, pages, metrics.

Sources, read 2026-11-27: vLLM 0.26.0 from its wheel (engine/arg_utils.py, entrypoints/openai/cli_args.py,
v1/metrics/loggers.py, model_executor/models/registry.py); TensorRT-LLM's tensorrt_llm/commands/serve.py at 00209af149
(the 1.2 line) and the option table of its repository of about 2026-08 (1.3), serve/openai_server.py and
metrics/collector.py. A flag that a release's row lacks is never rendered: `RuntimeRow.knows` decides for each flag.
"""

from dataclasses import dataclass, field

from deploy.catalog.architectures import OF_VLLM
from deploy.catalog.releases import LAST_ENGINE_TRTLLM

TRITON, SERVE, VLLM = "triton", "trtllm-serve", "vllm"


@dataclass(frozen=True, kw_only=True)
class RuntimeMetrics:
    """A program's Prometheus endpoint and the names of its counters by meaning; an empty name means that it has no such
    counter."""

    path: str
    running: str
    waiting: str
    cache_used: str
    generated_tokens: str
    answers: str
    first_token_seconds: str


@dataclass(frozen=True, kw_only=True)
class RuntimeRow:
    """A release of a program. `image` includes its tag; `program` is the command before the flags."""

    runtime: str
    version: str
    image: str
    program: tuple[str, ...]
    size_mib: int
    """Estimated MiB of the image's download, not read from a registry."""
    metrics: RuntimeMetrics
    flags: frozenset[str] = field(repr=False)
    switches: frozenset[str] = field(default=frozenset(), repr=False)
    """Flags that also exist in the negated form `--no-FLAG`."""

    def knows(self, flag: str) -> bool:
        return flag in self.flags or (flag.startswith("--no-") and f"--{flag[5:]}" in self.switches)

    @property
    def repository(self) -> str:
        return self.image.rsplit(":", 1)[0]


_VLLM = """
--model --runner --convert --tokenizer --tokenizer-mode --dtype --seed --hf-config-path --revision --code-revision
--tokenizer-revision --max-model-len --quantization --quantization-config --enforce-eager --max-logprobs
--logprobs-mode --skip-tokenizer-init --served-model-name --config-format --hf-overrides --generation-config
--override-generation-config --enable-sleep-mode --model-impl --load-format --download-dir
--safetensors-load-strategy --attention-backend --reasoning-parser --distributed-executor-backend
--pipeline-parallel-size --tensor-parallel-size --data-parallel-size --enable-expert-parallel
--nnodes --node-rank --master-addr --master-port --headless
--disable-custom-all-reduce --block-size --gpu-memory-utilization --kv-cache-memory-bytes --kv-cache-dtype
--num-gpu-blocks-override --enable-prefix-caching --prefix-caching-hash-algo --cpu-offload-gb --enable-lora --max-loras
--max-lora-rank --lora-dtype --max-cpu-loras --max-num-batched-tokens --max-num-seqs --scheduling-policy
--enable-chunked-prefill --async-scheduling --stream-interval --cudagraph-capture-sizes
--max-cudagraph-capture-size --moe-backend --speculative-config --compilation-config --structured-outputs-config
--optimization-level --performance-mode --disable-log-stats --shutdown-timeout --enable-log-requests --lora-modules
--chat-template --enable-auto-tool-choice --tool-call-parser --max-log-len --enable-prompt-tokens-details
--enable-server-load-tracking --enable-force-include-usage --enable-log-outputs --fingerprint-mode
--fingerprint-value --host --port --uds --uvicorn-log-level --disable-uvicorn-access-log --api-key --middleware
--enable-request-id-headers --disable-fastapi-docs --h11-max-incomplete-event-size --h11-max-header-count
"""
_VLLM_SWITCHES = "--enable-prefix-caching --enable-chunked-prefill --enable-log-requests --enable-expert-parallel"

_SERVE = """
--tokenizer --custom_tokenizer --host --port --backend --custom_module_dirs --log_level --max_beam_width
--max_batch_size --max_num_tokens --max_seq_len --tensor_parallel_size --tp_size --pipeline_parallel_size --pp_size
--context_parallel_size --cp_size --moe_expert_parallel_size --ep_size --gpus_per_node --free_gpu_memory_fraction
--kv_cache_free_gpu_memory_fraction --num_postprocess_workers --trust_remote_code --config --extra_llm_api_options
--reasoning_parser --tool_parser --metadata_server_config_file --server_role --disagg_cluster_uri
--enable_chunked_prefill --media_io_kwargs --chat_template
"""
_SERVE_1_2 = "--moe_cluster_parallel_size --cluster_size --revision --fail_fast_on_attention_window_too_large"
_SERVE_1_2 += " --otlp_traces_endpoint"
_SERVE_1_3 = """
--kv_cache_dtype --num_input_processor_workers --num_media_load_workers --hf_revision --enable_attention_dp
--video_pruning_rate --allow_request_chat_template --middleware --grpc --served_model_name --post_processor_hook
--telemetry --no-telemetry
"""

_VLLM_METRICS = RuntimeMetrics(
    path="/metrics",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    cache_used="vllm:kv_cache_usage_perc",
    generated_tokens="vllm:generation_tokens_total",
    answers="vllm:request_success_total",
    first_token_seconds="vllm:time_to_first_token_seconds",
)
_SERVE_METRICS = RuntimeMetrics(
    path="/prometheus/metrics",  # mounted only with `return_perf_metrics: true`; /metrics is JSON
    running="trtllm_num_requests_running",
    waiting="trtllm_num_requests_waiting",
    cache_used="trtllm_kv_cache_utilization",
    generated_tokens="trtllm_generation_tokens_total",
    answers="trtllm_request_success_total",
    first_token_seconds="trtllm_time_to_first_token_seconds",
)


def _serve(version: str, more: str) -> RuntimeRow:
    return RuntimeRow(
        runtime=SERVE,
        version=version,
        image=f"nvcr.io/nvidia/tensorrt-llm/release:{version}",
        program=("trtllm-serve", "serve"),
        size_mib=14_000,
        metrics=_SERVE_METRICS,
        flags=frozenset([*_SERVE.split(), *more.split()]),
    )


_ROWS = (
    RuntimeRow(
        runtime=VLLM,
        version="0.26.0",
        image="vllm/vllm-openai:v0.26.0",
        program=("vllm", "serve"),
        size_mib=12_000,
        metrics=_VLLM_METRICS,
        flags=frozenset(_VLLM.split()),
        switches=frozenset(_VLLM_SWITCHES.split()),
    ),
    _serve(LAST_ENGINE_TRTLLM, _SERVE_1_2),
    _serve("1.3.0rc29", _SERVE_1_3),
)

RUNTIMES: dict[tuple[str, str], RuntimeRow] = {(row.runtime, row.version): row for row in _ROWS}
"""Rows by runtime and version; the first row of a runtime is its default."""

VLLM_ARCHITECTURES = frozenset(
    [
        *("GptOssForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM"),
        *("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Phi3ForCausalLM", "NemotronForCausalLM", "GemmaForCausalLM"),
        *("DeepseekV3ForCausalLM", "Gemma2ForCausalLM", "GPT2LMHeadModel", "FalconForCausalLM"),
        *("Gemma3ForCausalLM", "Exaone4ForCausalLM", "Glm4MoeForCausalLM"),
        *(row.name for row in OF_VLLM),
    ]
)
"""Decoders of catalog.ARCHITECTURES that vLLM 0.26.0's registry has under the same class string."""

READ_BY_IDS = frozenset(["GptOssForCausalLM"])
"""Decoders whose answers the gateway parses by token ids; completions of trtllm-serve have no token ids."""


def rows_of(runtime: str) -> tuple[RuntimeRow, ...]:
    return tuple(row for row in _ROWS if row.runtime == runtime)


def row_of(runtime: str, tag: str) -> RuntimeRow | None:
    """The row of an image's tag: the version itself, or with a `v` before it or the builder's suffix after it."""
    bare = tag.removeprefix("v")
    matches = [row for row in rows_of(runtime) if bare == row.version or bare.startswith(f"{row.version}-")]
    return matches[0] if matches else None
