"""Options of `vllm serve` without a place in an inventory, each with its reason; and options without a value.

Names are those of vLLM's engine and server arguments (arg_utils.py and cli_args.py, a snapshot of late 2025, and its
pages for 0.8; read 2026-11-23). An option in neither this table nor `deploy.migrate.places` is reported as unknown:
vLLM adds some with each release.
"""

MEMORY = "the plan counts MiB instead: weights, contexts, workspace and KVCache(tokens=…) have to fit, or it refuses"
KERNELS = "TensorRT-LLM's own kernels and graphs decide it"
LOADING = "weights are fetched as safetensors of a pinned commit and checked, always"
MANY_HOSTS = "a model is not split over hosts by a migration; Parallel(hosts=(…)) does it with vLLM, once all are named"
GATEWAY_LOGS = "the gateway writes counts to its audit and metrics, never a word of a prompt"
TLS = "a Gateway serves plain HTTP on loopback; TLS is the inventory's Balancer, or one of yours"
PICTURES = "no multi-modal model is served here"
SAMPLING = "a gateway takes the checkpoint's generation_config.json and what a request says"
TOKENIZER = "tokenizer and template come with the weights, at their commit"
ROPE = "positions are the checkpoint's own; another length wants another checkpoint"
SCHEDULING = 'the scheduler is TensorRT-LLM\'s: scheduler="guaranteed_no_evict" or "max_utilization"'


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def without_place(reason: str, options: str) -> dict[str, str]:
    return dict.fromkeys(options.split(), reason)


NO_PLACE: dict[str, str] = {
    **without_place(
        MEMORY,
        """
        --gpu-memory-utilization --kv-cache-memory-bytes --num-gpu-blocks-override --swap-space --cpu-offload-gb
        --block-size
        """,
    ),
    **without_place(
        KERNELS,
        """
        --enforce-eager --compilation-config -O --cudagraph-capture-sizes --cuda-graph-sizes
        --max-cudagraph-capture-size --max-seq-len-to-capture --disable-custom-all-reduce --disable-cascade-attn
        --disable-sliding-window --all2all-backend --enable-dbo --dbo-decode-token-threshold
        --dbo-prefill-token-threshold --attention-backend --model-impl --override-attention-dtype --calculate-kv-scales
        --kv-sharing-fast-prefill --mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-block-size
        --disable-hybrid-kv-cache-manager --async-scheduling --prefix-caching-hash-algo --mm-encoder-attn-backend
        --attention-config --optimization-level --performance-mode --moe-backend --kernel-config --linear-backend
        --enable-flashinfer-autotune --cudagraph-mode --cudagraph-metrics --cp-kv-cache-interleave-size
        --dcp-kv-cache-interleave-size --dcp-comm-backend --disable-nccl-for-dp-synchronization --ubatch-size
        --kv-offloading-size --kv-offloading-backend --mamba-cache-mode --disable-flashinfer-prefill
        --disable-flashinfer-q-quantization --weight-transfer-config --numa-bind --numa-bind-nodes --numa-bind-cpus
        --language-model-only --enable-return-routed-experts --offload-backend --offload-group-size --kv-cache-metrics
        --kv-cache-metrics-sample --device --use-v2-block-manager --num-speculative-tokens
        """,
    ),
    **without_place(
        LOADING,
        """
        --load-format --download-dir --safetensors-load-strategy --model-loader-extra-config --ignore-patterns
        --use-tqdm-on-load --pt-load-map-location --config-format --code-revision --max-parallel-loading-workers
        """,
    ),
    **without_place(
        MANY_HOSTS,
        """
        --distributed-executor-backend --data-parallel-rank --data-parallel-start-rank --data-parallel-size-local
        --data-parallel-address --data-parallel-rpc-port --data-parallel-backend --data-parallel-hybrid-lb
        --decode-context-parallel-size --kv-transfer-config --kv-events-config --headless --ray-workers-use-nsight
        --enable-eplb --eplb-config --expert-placement-strategy --num-redundant-experts --nnodes --node-rank
        --master-addr --master-port --distributed-timeout-seconds --data-parallel-external-lb
        --data-parallel-supervisor-port --prefill-context-parallel-size --elastic-ep --enable-elastic-ep
        --enable-ep-weight-filter --ec-transfer-config --grpc --fail-on-environ-validation --shutdown-timeout
        """,
    ),
    **without_place(
        GATEWAY_LOGS,
        """
        --disable-log-requests --enable-log-requests --disable-log-stats --max-log-len --uvicorn-log-level
        --disable-uvicorn-access-log --enable-log-outputs --aggregate-engine-logging --enable-log-deltas
        --disable-access-log-for-endpoints --enable-logging-iteration-details --enable-mfu-metrics --profiler-config
        --h11-max-incomplete-event-size --h11-max-header-count --disable-fastapi-docs --enable-offline-docs
        --tokens-only --enable-tokenizer-info-endpoint --log-config-file --show-hidden-metrics-for-version
        --otlp-traces-endpoint --collect-detailed-traces
        """,
    ),
    **dict.fromkeys(
        ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", "--uds", "--root-path"), TLS
    ),
    **dict.fromkeys(
        ("--allowed-origins", "--allow-credentials", "--allowed-methods", "--allowed-headers", "--middleware"),
        "the gateway answers programs; pages of a browser want a proxy of yours before it",
    ),
    **without_place(
        PICTURES,
        """
        --limit-mm-per-prompt --mm-processor-kwargs --mm-processor-cache-gb --mm-encoder-tp-mode --media-io-kwargs
        --allowed-local-media-path --allowed-media-domains --enable-mm-embeds --skip-mm-profiling
        --interleave-mm-strings --disable-mm-preprocessor-cache --default-mm-loras --video-pruning-rate
        """,
    ),
    **without_place(
        SAMPLING,
        """
        --generation-config --override-generation-config --seed --max-logprobs --logprobs-mode --logits-processors
        --logits-processor-pattern
        """,
    ),
    **without_place(
        TOKENIZER,
        """
        --tokenizer --tokenizer-mode --tokenizer-revision --skip-tokenizer-init --chat-template
        --chat-template-content-format --trust-request-chat-template
        """,
    ),
    **dict.fromkeys(("--rope-scaling", "--rope-theta", "--hf-overrides", "--hf-config-path"), ROPE),
    **without_place(
        SCHEDULING,
        """
        --scheduling-policy --max-num-partial-prefills --max-long-partial-prefills --long-prefill-token-threshold
        --num-lookahead-slots --scheduler-cls --num-scheduler-steps --disable-chunked-mm-input --stream-interval
        --scheduler-reserve-full-isl --no-scheduler-reserve-full-isl --max-waiting-queue-length --preemption-mode
        --multi-step-stream-outputs --scheduler-delay-factor
        """,
    ),
    **dict.fromkeys(
        ("--deployment-config", "--replicaCount"),
        "replicas are hosts of the inventory, each with a Server of this name",
    ),
    **dict.fromkeys(("--repository", "--tag", "--imagePullPolicy"), "release=… names the image, by its digest"),
    "--name": "name of the LLM is what clients ask for",
    "--accelerator-type": 'Machine(gpu="…") names the card',
    **dict.fromkeys(
        ("--runtime-env", "--requestCPU", "--requestMemory", "--pvcStorage"), "a Server has the whole host"
    ),
    "--trust-remote-code": "the plan refuses it: pinned weights do not pin code; the models here need none",
    "--hf-token": 'a secret stands in no command line: Hub(token=Secret.env("HF_TOKEN")), or a vault',
    "--enable-sleep-mode": "a server that sleeps is not ready; stop it with a drain instead",
    "--lora-extra-vocab-size": "adapters with tokens of their own are not served",
    "--lora-dtype": "adapters have the model's own type",
    "--max-cpu-loras": "LoRA(host_mib=…) says how much host memory adapters may take",
    "--fully-sharded-loras": KERNELS,
    "--max-loras": "LoRA(gpu_mib=…) says how much memory of each GPU adapters may take",
    "--pooler-config": "pooling is the checkpoint's own (1_Pooling/config.json)",
    "--override-pooler-config": "pooling is the checkpoint's own (1_Pooling/config.json)",
    "--worker-cls": "no code of another server is loaded",
    "--worker-extension-cls": "no code of another server is loaded",
    "--tool-parser-plugin": "parsers are the gateway's own",
    "--reasoning-parser-plugin": "parsers are the gateway's own",
    "--enable-prompt-embeds": "the gateway takes text",
    "--return-tokens-as-token-ids": "the gateway answers text",
    "--enable-server-load-tracking": "the balancer counts what is under way; /metrics has enginehouse_gateway_running",
    "--enable-prompt-tokens-details": "the gateway always says how many prompt tokens were cached, where it knows",
    "--enable-request-id-headers": "the gateway always answers with its request's identity",
    "--additional-config": KERNELS,
    "--api-server-count": "Gateway(ports=(8080, 8081)): a process for each port",
    "--response-role": "the gateway answers as assistant",
    "--enable-force-include-usage": 'a request says stream_options={"include_usage": true}',
    "--disable-frontend-multiprocessing": "gateway and Triton are processes of their own",
    "--config": "the file was not read: give its options as words",
}
FLAGS = words_of(
    """
    --trust-remote-code --enable-prefix-caching --no-enable-prefix-caching --enable-chunked-prefill
    --no-enable-chunked-prefill --enable-lora --no-enable-lora --enable-auto-tool-choice --enable-expert-parallel
    --no-enable-expert-parallel --enforce-eager --no-enforce-eager --disable-log-requests --enable-log-requests
    --disable-log-stats --disable-custom-all-reduce --disable-sliding-window --skip-tokenizer-init --enable-sleep-mode
    --disable-uvicorn-access-log --enable-request-id-headers --headless --enable-dbo --enable-eplb --async-scheduling
    --enable-prompt-tokens-details --enable-server-load-tracking --return-tokens-as-token-ids --enable-prompt-embeds
    --disable-cascade-attn --fully-sharded-loras --data-parallel-hybrid-lb --enable-reasoning --allow-credentials
    --disable-frontend-multiprocessing --enable-force-include-usage --calculate-kv-scales --enable-log-outputs
    --aggregate-engine-logging --disable-mm-preprocessor-cache --enable-mm-embeds --skip-mm-profiling
    --interleave-mm-strings --ray-workers-use-nsight --disable-hybrid-kv-cache-manager --use-tqdm-on-load
    --enable-log-deltas --enable-ep-weight-filter --enable-elastic-ep --language-model-only --numa-bind --grpc
    --tokens-only --disable-fastapi-docs --enable-offline-docs --enable-mfu-metrics --kv-cache-metrics
    --no-async-scheduling --enable-flashinfer-autotune --no-enable-flashinfer-autotune --enable-tokenizer-info-endpoint
    --data-parallel-external-lb --use-v2-block-manager --no-enable-log-requests
    """
)
"""Options without a value: a word behind them is the model."""
