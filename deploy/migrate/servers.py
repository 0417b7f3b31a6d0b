"""Other servers' options under vLLM's names, so that one table holds the place of each.

Sources, read in stored copies on 2026-11-27: vLLM as in `deploy.migrate.options`; SGLang's page on server arguments;
text-generation-inference docs/source/reference/launcher.md; text-embeddings-inference docs/source/en/cli_arguments.md;
NVIDIA's pages on variables of NIM for LLMs (2.0) and on trtllm-serve (0.18 to 1.3); KServe's Hugging Face server, from
its examples.
"""

import re

from deploy.migrate.counterparts import CACHED, CHUNKS, EMBEDS, EXPERTS, FIRST_GPU, ITEMS, PASS_TOKENS
from deploy.migrate.engine import Engine
from deploy.migrate.lmdeploy import LMDEPLOY, LMI
from deploy.migrate.options import (
    GATEWAY_LOGS,
    KERNELS,
    LOADING,
    MANY_HOSTS,
    MEMORY,
    NO_PLACE,
    SAMPLING,
    SCHEDULING,
    TOKENIZER,
    words_of,
)
from deploy.migrate.places import PLACES

SPECULATION = "speculative=Draft(…), Eagle(…) or Lookahead(…) want weights that were trained for TensorRT-LLM's kind"
QUEUES = "requests wait in the gateway and in Triton; GatewayLimits(connections=…, held=…) bound them"
METRICS = "gateway and Triton always have metrics; a monitor of the inventory reads them"
PROMPTS = "max_seq_len counts prompt and answer together; a request says how long its answer may be"


VLLM = Engine(
    title="vLLM",
    image=re.compile(
        r"(^|/)vllm[\w-]*(/vllm[\w-]*)*-openai(:|@|$)|(^|/)[\w-]{0,40}vllm[\w-]*(:|@|$)|public\.ecr\.aws/.*/vllm"
    ),
    programs=frozenset(["vllm"]),
    variables={"HF_MODEL_ID": "--model"},
    variables_begin="SM_VLLM_",
    modules=frozenset(["vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "dynamo.vllm"]),
    verbs=frozenset(["serve"]),
    takes_a_word=True,
)
SGLANG = Engine(
    title="SGLang",
    image=re.compile(r"(^|/)sglang(:|@|$)"),
    programs=frozenset(["sglang"]),
    modules=frozenset(["sglang.launch_server", "dynamo.sglang"]),
    verbs=frozenset(["serve"]),
    shares_ranks="--enable-dp-attention",
    port=30000,
    renamed={
        **dict.fromkeys(("--model-path", "--model"), "--model"),
        "--context-length": "--max-model-len",
        **dict.fromkeys(("--tp", "--tp-size", "--tensor-parallel-size"), "--tensor-parallel-size"),
        **dict.fromkeys(("--pp", "--pp-size", "--pipeline-parallel-size"), "--pipeline-parallel-size"),
        **dict.fromkeys(("--dp", "--dp-size", "--data-parallel-size"), "--data-parallel-size"),
        **dict.fromkeys(("--ep", "--ep-size", "--expert-parallel-size"), EXPERTS),
        "--max-running-requests": "--max-num-seqs",
        "--chunked-prefill-size": CHUNKS,
        "--max-total-tokens": CACHED,
        "--disable-radix-cache": "--no-enable-prefix-caching",
        "--grammar-backend": "--guided-decoding-backend",
        "--is-embedding": EMBEDS,
        "--base-gpu-id": FIRST_GPU,
        "--lora-paths": "--lora-modules",
        **{
            name: name
            for name in (
                *("--revision", "--served-model-name", "--dtype", "--quantization", "--kv-cache-dtype", "--host"),
                *("--port", "--api-key", "--tool-call-parser", "--reasoning-parser", "--enable-lora"),
                "--max-lora-rank",
            )
        },
    },
    no_place={
        "--mem-fraction-static": MEMORY,
        "--page-size": MEMORY,
        "--cpu-offload-gb": MEMORY,
        "--max-prefill-tokens": "max_num_tokens bounds an iteration: --chunked-prefill-size says it",
        "--max-queued-requests": QUEUES,
        **dict.fromkeys(("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-port", "--dist-timeout"), MANY_HOSTS),
        **dict.fromkeys(
            (
                *("--attention-backend", "--prefill-attention-backend", "--decode-attention-backend"),
                *("--disable-cuda-graph", "--cuda-graph-max-bs", "--cuda-graph-bs", "--enable-torch-compile"),
                *("--torch-compile-max-bs", "--sampling-backend", "--enable-dp-attention", "--enable-dp-lm-head"),
                *("--moe-runner-backend", "--moe-a2a-backend", "--deepep-mode", "--fp8-gemm-backend"),
                *("--enable-flashinfer-allreduce-fusion", "--disable-custom-all-reduce", "--enable-mixed-chunk"),
                *("--disable-overlap-schedule", "--num-continuous-decode-steps", "--enable-hierarchical-cache"),
                *("--hicache-ratio", "--hicache-size", "--enable-p2p-check", "--mm-attention-backend", "--device"),
            ),
            KERNELS,
        ),
        **dict.fromkeys(("--schedule-policy", "--schedule-conservativeness", "--stream-interval"), SCHEDULING),
        **dict.fromkeys(("--load-format", "--download-dir", "--model-loader-extra-config"), LOADING),
        **dict.fromkeys(
            ("--tokenizer-path", "--tokenizer-mode", "--chat-template", "--skip-tokenizer-init"), TOKENIZER
        ),
        **dict.fromkeys(("--random-seed", "--preferred-sampling-params", "--sampling-defaults"), SAMPLING),
        **dict.fromkeys(
            (
                *("--speculative-algorithm", "--speculative-algo", "--speculative-draft-model-path"),
                *("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"),
            ),
            SPECULATION,
        ),
        **dict.fromkeys(("--log-level", "--log-level-http", "--log-requests", "--log-requests-level"), GATEWAY_LOGS),
        "--enable-metrics": METRICS,
        "--watchdog-timeout": "a watchdog of the host asks every server and restarts it",
        "--max-loras-per-batch": NO_PLACE["--max-loras"],
        "--json-model-override-args": NO_PLACE["--hf-overrides"],
    },
    flags=words_of(
        """
    --trust-remote-code --is-embedding --disable-radix-cache --disable-cuda-graph --enable-torch-compile
    --enable-dp-attention --enable-metrics --log-requests --enable-mixed-chunk --disable-overlap-schedule
    --enable-p2p-check --skip-tokenizer-init --enable-lora --enable-hierarchical-cache
    --disable-custom-all-reduce --enable-multimodal --enable-dp-lm-head
    """
    ),
    values={
        ("--tool-call-parser", "qwen25"): "hermes",
        ("--tool-call-parser", "qwen"): "hermes",
        ("--tool-call-parser", "llama3"): "llama3_json",
        ("--tool-call-parser", "gpt-oss"): "openai",
        ("--reasoning-parser", "deepseek-r1"): "deepseek_r1",
        ("--reasoning-parser", "gpt-oss"): "gpt_oss",
        ("--kv-cache-dtype", "bf16"): "bfloat16",
        ("--quantization", "modelopt_fp8"): "modelopt",
    },
)
_OF_HUGGING_FACE = {
    "--model-id": "--model",
    "--hostname": "--host",
    "-p": "--port",
    **{name: name for name in ("--revision", "--dtype", "--port", "--api-key")},
}
_NOWHERE_OF_HUGGING_FACE = {
    "--trust-remote-code": NO_PLACE["--trust-remote-code"],
    "--hf-token": NO_PLACE["--hf-token"],
    "--max-concurrent-requests": QUEUES,
    "--payload-limit": "GatewayLimits(body_mib=…)",
    "--json-output": GATEWAY_LOGS,
    "--otlp-endpoint": "Gateway(trace_one_in=…) traces requests",
    "--otlp-service-name": "Gateway(trace_one_in=…) traces requests",
    "--prometheus-port": METRICS,
    "--cors-allow-origin": "Gateway(cors_origins=…)",
    "--huggingface-hub-cache": LOADING,
}
TGI = Engine(
    title="text-generation-inference",
    takes_every_gpu=True,
    image=re.compile(r"text-generation-inference|-tgi-inference"),
    variables={"HF_MODEL_ID": "--model-id", "SM_NUM_GPUS": "--num-shard", "HF_MODEL_REVISION": "--revision"},
    programs=frozenset(["text-generation-launcher"]),
    port=80,
    takes_beginnings=False,
    says_options_in_variables=True,
    renamed={
        **_OF_HUGGING_FACE,
        "--num-shard": "--tensor-parallel-size",
        "--quantize": "--quantization",
        "--kv-cache-dtype": "--kv-cache-dtype",
        "--max-total-tokens": "--max-model-len",
        "--max-batch-prefill-tokens": "--max-num-batched-tokens",
        "--max-batch-total-tokens": CACHED,
        "--max-batch-size": "--max-num-seqs",
        "--lora-adapters": "--lora-modules",
    },
    no_place={
        **_NOWHERE_OF_HUGGING_FACE,
        **dict.fromkeys(("--max-input-tokens", "--max-input-length"), PROMPTS),
        "--cuda-memory-fraction": MEMORY,
        "--sharded": "--num-shard says over how many GPUs",
        "--speculate": SPECULATION,
        **dict.fromkeys(("--cuda-graphs", "--disable-custom-kernels"), KERNELS),
        **dict.fromkeys(("--waiting-served-ratio", "--max-waiting-tokens"), SCHEDULING),
        **dict.fromkeys(("--max-best-of", "--max-stop-sequences", "--max-top-n-tokens"), SAMPLING),
        "--max-client-batch-size": "GatewayLimits(inputs=…)",
        **dict.fromkeys(("--rope-scaling", "--rope-factor"), NO_PLACE["--rope-scaling"]),
        **dict.fromkeys(("--tokenizer-config-path",), TOKENIZER),
        "--disable-grammar-support": "guided_decoding=False, which is the default",
        **dict.fromkeys(("--shard-uds-path", "--master-addr", "--master-port", "--weights-cache-override"), LOADING),
        **dict.fromkeys(("--watermark-gamma", "--watermark-delta"), "answers carry no watermark"),
        "--usage-stats": "nothing is reported to anybody",
        "--validation-workers": "the gateway tokenises in processes of its own",
        "--enable-prefill-logprobs": "/v1/completions has echo and logprobs",
    },
    flags=frozenset(["--trust-remote-code", "--disable-custom-kernels", "--json-output", "--disable-grammar-support"]),
    values={("--kv-cache-dtype", "fp8_e4m3fn"): "fp8_e4m3", ("--quantization", "marlin"): "gptq_marlin"},
)
TEI = Engine(
    title="text-embeddings-inference",
    image=re.compile(r"text-embeddings-inference"),
    programs=frozenset(["text-embeddings-router"]),
    port=80,
    takes_beginnings=False,
    says_options_in_variables=True,
    kind="embedder",
    renamed={
        **_OF_HUGGING_FACE,
        "--served-model-name": "--served-model-name",
        "--max-batch-tokens": PASS_TOKENS,
        "--max-client-batch-size": ITEMS,
    },
    no_place={
        **_NOWHERE_OF_HUGGING_FACE,
        "--max-batch-requests": "passes are filled by tokens: max_batch_tokens",
        "--pooling": NO_PLACE["--pooler-config"],
        "--auto-truncate": "a request says truncate",
        **dict.fromkeys(("--default-prompt", "--default-prompt-name"), "default_task, for families that have prefixes"),
        "--dense-path": NO_PLACE["--pooler-config"],
        "--tokenization-workers": "the gateway tokenises in processes of its own",
        "--uds-path": LOADING,
        "--disable-spans": GATEWAY_LOGS,
    },
    flags=frozenset(["--auto-truncate", "--json-output", "--disable-spans"]),
)
NIM = Engine(
    title="NIM",
    takes_every_gpu=True,
    image=re.compile(r"(^|/)nvcr\.io/nim/[\w./-]+(:|@|$)"),
    variables={
        "NIM_MAX_MODEL_LEN": "--max-model-len",
        "NIM_SERVED_MODEL_NAME": "--served-model-name",
        "NIM_TENSOR_PARALLEL_SIZE": "--tensor-parallel-size",
        "NIM_PIPELINE_PARALLEL_SIZE": "--pipeline-parallel-size",
        "NIM_SERVER_PORT": "--port",
        "NIM_HTTP_API_PORT": "--port",
        "NIM_MODEL_PATH": "--model",
        "NIM_MODEL_NAME": "--model",
        "NIM_MAX_NUM_SEQS": "--max-num-seqs",
        "NIM_GUIDED_DECODING_BACKEND": "--guided-decoding-backend",
    },
)
KSERVE = Engine(
    title="KServe's Hugging Face server",
    image=re.compile(r"(^|/)kserve/huggingfaceserver(:|@|$)"),
    modules=frozenset(["huggingfaceserver"]),
    port=8080,
    renamed={
        "--model-id": "--model",
        "--model-dir": "--model",
        "--model-name": "--served-model-name",
        "--model-revision": "--revision",
        "--http-port": "--port",
        "--max-length": "--max-model-len",
        "--task": "--task",
        **{name: name for name in PLACES if name.startswith("--")},
    },
    no_place={
        "--backend": KERNELS,
        "--tensor-input-names": "the gateway takes text",
        "--return-token-type-ids": "the gateway takes text",
        "--disable-lower-case": TOKENIZER,
        "--add-special-tokens": TOKENIZER,
    },
)
TRTLLM_SERVE = Engine(
    title="trtllm-serve",
    image=re.compile(r"(?!)"),
    programs=frozenset(["trtllm-serve"]),
    modules=frozenset(["dynamo.trtllm"]),
    verbs=frozenset(["serve"]),
    needs_verb=False,
    takes_a_word=True,
    renamed={
        **dict.fromkeys(("--tp-size", "--tp", "--tensor-parallel-size"), "--tensor-parallel-size"),
        **dict.fromkeys(("--pp-size", "--pp", "--pipeline-parallel-size"), "--pipeline-parallel-size"),
        **dict.fromkeys(("--ep-size", "--ep", "--expert-parallel-size"), EXPERTS),
        **dict.fromkeys(("--model-path", "--model"), "--model"),
        "--max-batch-size": "--max-num-seqs",
        "--max-num-tokens": "--max-num-batched-tokens",
        "--max-seq-len": "--max-model-len",
        "--reasoning-parser": "--reasoning-parser",
        "--tool-parser": "--tool-call-parser",
        "--served-model-name": "--served-model-name",
        "--revision": "--revision",
        "--host": "--host",
        "--port": "--port",
    },
    no_place={
        **dict.fromkeys(("--kv-cache-free-gpu-memory-fraction", "--free-gpu-memory-fraction"), MEMORY),
        **dict.fromkeys(("--backend", "--max-beam-width", "--num-postprocess-workers", "--fail-fast"), KERNELS),
        **dict.fromkeys(("--cluster-size", "--gpus-per-node", "--metadata-server-config-file"), MANY_HOSTS),
        **dict.fromkeys(("--tokenizer", "--chat-template", "--custom-tokenizer"), TOKENIZER),
        **dict.fromkeys(
            ("--extra-llm-api-options", "--extra-engine-args", "--config"),
            "its settings are fields of LLM(…): the plan writes the file that the server reads",
        ),
        "--log-level": GATEWAY_LOGS,
    },
    flags=frozenset(["--trust-remote-code", "--fail-fast"]),
)
"""NVIDIA's image starts a shell, so that a command inside it names the server."""
ENGINES = (VLLM, SGLANG, TGI, TEI, NIM, LMDEPLOY, LMI, TRTLLM_SERVE, KSERVE)
