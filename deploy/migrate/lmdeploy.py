"""Options of LMDeploy and of DJL's LMI container under vLLM's names, and servers known by name, each with advice.

Sources: LMDeploy docs/en/llm/api_server.md and lmdeploy/cli/serve.py, known from reports and not read again.
"""

import re

from deploy.migrate.counterparts import CACHED, EXPERTS
from deploy.migrate.engine import Engine
from deploy.migrate.options import GATEWAY_LOGS, KERNELS, LOADING, MANY_HOSTS, MEMORY, SCHEDULING, TLS, TOKENIZER

LMDEPLOY = Engine(
    title="LMDeploy",
    image=re.compile(r"(^|/)lmdeploy(:|@|$)"),
    programs=frozenset(["lmdeploy"]),
    modules=frozenset(["lmdeploy.serve.openai.api_server"]),
    verbs=frozenset(["serve"]),
    second_verbs=frozenset(["api_server", "gradio", "proxy"]),
    port=23333,
    takes_a_word=True,
    renamed={
        "--server-port": "--port",
        "--server-name": "--host",
        "--model-name": "--served-model-name",
        "--session-len": "--max-model-len",
        "--max-batch-size": "--max-num-seqs",
        "--max-prefill-token-num": "--max-num-batched-tokens",
        "--tp": "--tensor-parallel-size",
        "--dp": "--data-parallel-size",
        "--ep": EXPERTS,
        "--api-keys": "--api-key",
        "--enable-prefix-caching": "--enable-prefix-caching",
        "--adapters": "--lora-modules",
        "--cache-tokens": CACHED,
        **{
            name: name
            for name in ("--revision", "--dtype", "--tool-call-parser", "--reasoning-parser", "--port", "--host")
        },
    },
    no_place={
        **dict.fromkeys(("--cache-max-entry-count", "--cache-block-seq-len", "--max-log-len"), MEMORY),
        "--backend": KERNELS,
        "--eager-mode": KERNELS,
        "--communicator": KERNELS,
        "--device": KERNELS,
        "--quant-policy": 'kv_cache=KVCache(dtype="fp8"): a cache of 8-bit integers or 4 bits is not served',
        "--model-format": "the precision is the checkpoint's own; enginehouse fit says which a model has",
        "--rope-scaling-factor": "positions are the checkpoint's own; another length wants another checkpoint",
        "--download-dir": LOADING,
        "--num-tokens-per-iter": SCHEDULING,
        "--max-prefill-iters": SCHEDULING,
        "--chat-template": TOKENIZER,
        "--log-level": GATEWAY_LOGS,
        "--ssl": TLS,
        "--proxy-url": MANY_HOSTS,
        "--nnodes": MANY_HOSTS,
        "--node-rank": MANY_HOSTS,
        "--allow-origins": "Gateway(cors_origins=…)",
    },
    flags=frozenset(["--enable-prefix-caching", "--eager-mode", "--ssl", "--trust-remote-code"]),
)
LMI = Engine(
    title="DJL's LMI container",
    image=re.compile(r"djl-(?:inference|serving)(:|@|$)"),
    port=8080,
    variables={
        **dict.fromkeys(("HF_MODEL_ID", "OPTION_MODEL_ID", "SERVING_MODEL_ID"), "--model"),
        **dict.fromkeys(("HF_REVISION", "OPTION_REVISION"), "--revision"),
        **dict.fromkeys(("TENSOR_PARALLEL_DEGREE", "OPTION_TENSOR_PARALLEL_DEGREE"), "--tensor-parallel-size"),
        "OPTION_PIPELINE_PARALLEL_DEGREE": "--pipeline-parallel-size",
        "OPTION_MAX_ROLLING_BATCH_SIZE": "--max-num-seqs",
        "OPTION_MAX_ROLLING_BATCH_PREFILL_TOKENS": "--max-num-batched-tokens",
        "OPTION_QUANTIZE": "--quantization",
    },
    variables_begin="OPTION_",
    values={("--dtype", "bf16"): "bfloat16", ("--dtype", "fp16"): "float16"},
)
"""Source: djl-serving serving/docs/lmi/lmi_environment_variable_instruction.md, read on 2026-11-28."""
GGUF = "its models are GGUF files, which no server here reads: name the repository that they were made of"
OTHER_FORM = "its options are not read here: name its model"
NOT_READ: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("Ollama", re.compile(r"\bollama\b"), GGUF),
    ("llama.cpp", re.compile(r"\bllama-server\b|\bllama[._-]?cpp\b|\bllama-cli\b|\.gguf\b"), GGUF),
    ("MLC LLM", re.compile(r"\bmlc_llm\b|\bmlc-llm\b"), OTHER_FORM),
    (
        "",
        re.compile(
            r"\binfinity(?:_emb)?\b|\blightllm\b|\baphrodite\b|\btabbyapi\b|\bexllama|\bfastchat\b|\bxinference\b"
            r"|\bopenllm\b|\bbentoml\b|\btorchserve\b|\bmii\.serve\b|\bfastdeploy\b|\bktransformers\b",
            re.I,
        ),
        OTHER_FORM,
    ),
    (
        "settings of trtllm-serve, or of a model of the LLM API, without its model",
        re.compile(r"^(?:kv_cache_config|cuda_graph_config|enable_attention_dp|moe_config|speculative_config):", re.M),
        "paste the command that reads this file",
    ),
    ("Ray Serve with code of its own", re.compile(r"\bRayService\b|\bray\.serve\b|\bserve run\b"), OTHER_FORM),
    ("NVIDIA Dynamo's deployment", re.compile(r"DynamoGraphDeployment|\bdynamo\b"), OTHER_FORM),
    ("a Model of KubeAI", re.compile(r"\bkubeai\.org/"), OTHER_FORM),
    ("a module of NixOS", re.compile(r"\boci-containers\b|\bmkDerivation\b"), OTHER_FORM),
    ("a chart of Helm", re.compile(r"\bhelm (?:install|upgrade)\b"), "paste its values, or what helm template prints"),
    (
        "MLX",
        re.compile(r"\bmlx_(?:lm|vlm)\b"),
        "its weights are made for Apple's GPUs: name their origin",
    ),
    ("llm-d's chart", re.compile(r"\bmodelArtifacts\b|\bllm-d\b"), OTHER_FORM),
    ("LocalAI, LM Studio or KoboldCpp", re.compile(r"\blocalai\b|\blmstudio\b|\bkoboldcpp\b", re.I), GGUF),
    ("values of a template", re.compile(r"\{%-? "), "fill them in first"),
    (
        "Triton itself",
        re.compile(r"\btritonserver\b|\bconfig\.pbtxt\b|^backend: |launch_triton_server", re.MULTILINE),
        "enginehouse check reads its flags and files; the inventory names the model and its checkpoint instead",
    ),
    (
        "a build of TensorRT-LLM",
        re.compile(r"trtllm-build|convert_checkpoint|quantize\.py"),
        "enginehouse check reads its flags; here the plan builds the engine from the model's checkpoint",
    ),
    (
        "a load for a server",
        re.compile(r"\bgenai-perf\b|\baiperf\b|\bperf_analyzer\b|\bbenchmark_serving\b|\bvllm bench\b"),
        "it starts no server: enginehouse bench measures one",
    ),
)
"""Programs by name, in order: title (empty: the found word), its words in a text, and advice."""


def not_read(text: str) -> tuple[str, str]:
    """The title and the advice for the first program of NOT_READ in the text; empty without one."""
    for title, words, advice in NOT_READ:
        if match := words.search(text):
            return title or match[0], advice
    return "", ""
