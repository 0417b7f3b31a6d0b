"""Commands as guides print them, by the promise that each proves: the text, and the expected kinds of findings.

One table, longer than 300 lines, because broken commands side by side are easier to compare than in ten files.
"""

from __future__ import annotations

from tests.unit.pasted_case import Case
from tests.unit.pasted_containers import AROUND

GPT_OSS_CONFIG = """name: "gpt_oss_20b"
backend: "tensorrtllm"
max_batch_size: __MAX_BATCH_SIZE_GPT__
model_transaction_policy { decoupled: true }
input [
  { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "input_lengths" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "request_output_len" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "streaming" data_type: TYPE_BOOL dims: [ 1 ], optional: true }
]
output [
  { name: "output_ids" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "sequence_length" data_type: TYPE_INT32 dims: [ 1 ] }
]
parameters { key: "engine_dir" value: { string_value: "/engines/trt/gpt-oss-20b" } }
parameters {
  key: "executor_worker_path"
  value: { string_value: "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker" }
}
parameters { key: "kv_cache_free_gpu_mem_fraction" value: { string_value: "__KV_CACHE_FRACTION__" } }
parameters { key: "max_num_sequences" value: { string_value: "256" } }
instance_group [{ kind: KIND_GPU, gpus: [0], count: 1 }]
"""

LLAMA_CONFIG = """name: "tensorrt_llm"
backend: "tensorrtllm"
max_batch_size: 64
input [ { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "output_ids" data_type: TYPE_INT32 dims: [ -1, -1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters { key: "gpt_model_type" value: { string_value: "inflight_fused_batching" } }
parameters { key: "gpt_model_path" value: { string_value: "/engines/llama" } }
parameters { key: "tokenizer_dir" value: { string_value: "" } }
parameters { key: "xgrammar_tokenizer_info_path" value: { string_value: "" } }
parameters { key: "guided_decoding_backend" value: { string_value: "" } }
parameters { key: "batch_scheduler_policy" value: { string_value: "guaranteed_no_evict" } }
parameters { key: "enable_chunked_context" value: { string_value: "true" } }
parameters { key: "kv_cache_free_gpu_mem_fraction" value: { string_value: "0.85" } }
"""

RERANKER_CONFIG = """name: "bge_reranker"
backend: "python"
max_batch_size: 64
input [
  { name: "query", data_type: TYPE_STRING, dims: [ 1 ] },
  { name: "passages", data_type: TYPE_STRING, dims: [ -1 ] }
]
output [ { name: "scores", data_type: TYPE_FP32, dims: [ -1 ] } ]
parameters { key: "model_path" value: { string_value: "/models/bge-reranker-large" } }
instance_group [{ kind: KIND_GPU, gpus: [0], count: 1 }]
"""

BUILDS = {
    "a chat engine with output length and batching": Case(
        """trtllm-build \\
--checkpoint_dir ./ckpt/llama3-70b-fp8-tp4 \\
--output_dir ./engines/llama3-70b-chat \\
--gemm_plugin fp8 \\
--use_fp8_context_fmha enable \\
--paged_kv_cache enable \\
--use_inflight_batching enable \\
--remove_input_padding enable \\
--use_fused_mlp enable \\
--max_batch_size 128 \\
--max_input_len 8192 \\
--max_output_len 2048 \\
--max_num_tokens 16384 \\
--kv_cache_free_gpu_mem_fraction 0.92 \\
--workers 4""",
        ("run-time-flag", "removed-flag", "run-time-flag"),
    ),
    "a long context engine with multi block mode": Case(
        """trtllm-build --checkpoint_dir ./ckpt/llama3-70b-fp8-tp4 --output_dir ./engines/llama3-70b-128k \\
  --gemm_plugin fp8 --use_fp8_context_fmha enable --use_paged_context_fmha enable --paged_kv_cache enable \\
  --multi_block_mode enable --max_batch_size 16 --max_input_len 131072 --max_output_len 4096 \\
  --max_num_tokens 8192 --kv_cache_free_gpu_mem_fraction 0.95""",
        ("run-time-flag", "removed-flag", "run-time-flag"),
    ),
    "an eagle engine from a plain checkpoint": Case(
        """trtllm-build --checkpoint_dir ./ckpt/llama3-70b-fp8-tp4 --output_dir ./engines/eagle --gemm_plugin fp8 \\
  --use_inflight_batching enable speculative_decoding_mode eagle --max_draft_len 5 --max_output_len 1024""",
        ("run-time-flag", "stray-word", "removed-flag"),
    ),
    "a build that is told its parallelism": Case(
        """trtllm-build --checkpoint_dir /engines/fp8-checkpoint --output_dir /engines/llama70b-engine \\
  --gemm_plugin fp8 --gpt_attention_plugin fp8 --max_batch_size 128 --max_input_len 8192 --max_seq_len 10240 \\
  --workers 4 --tp_size 4""",
        ("value-not-offered", "elsewhere-flag"),
    ),
    "float8 in both plugins": Case(
        "trtllm-build --checkpoint_dir ckpt --gemm_plugin float8 --gpt_attention_plugin float8",
        ("value-not-offered", "value-not-offered"),
    ),
    "spellings of dtypes the plugin does not take": Case(
        "trtllm-build --checkpoint_dir ckpt --gemm_plugin=bf16 --lora_plugin fp16 --moe_plugin int8",
        ("value-not-offered", "value-not-offered", "value-not-offered"),
    ),
    "fp4 is nvfp4 from 1.2 on": Case("trtllm-build --checkpoint_dir c --gemm_plugin fp4", ("value-not-offered",)),
    "weight only quantisation is no plugin": Case(
        "trtllm-build --checkpoint_dir c --gemm_plugin int4_weight_only", ("value-not-offered",)
    ),
    "use fp8 is the convert script's": Case("trtllm-build --checkpoint_dir c --use_fp8", ("elsewhere-flag",)),
    "strongly typed and xqa are no flags": Case(
        "trtllm-build --checkpoint_dir c --strongly_typed --enable_xqa enable", ("never-flag", "removed-flag")
    ),
    "speculation is spelt out": Case(
        "trtllm-build --checkpoint_dir c --speculative_decoding_mode lookahead", ("value-not-offered",)
    ),
    "draft and target speculation is named otherwise": Case(
        "trtllm-build --checkpoint_dir c --speculative_decoding_mode draft_target --max_draft_len 4",
        ("value-not-offered",),
    ),
    "no speculation is no flag": Case(
        "trtllm-build --checkpoint_dir c --speculative_decoding_mode none", ("value-not-offered",)
    ),
    "medusa heads are counted when quantising": Case(
        "trtllm-build --checkpoint_dir c --medusa_num_heads 4", ("elsewhere-flag",)
    ),
    "a switch takes no value": Case(
        "trtllm-build --checkpoint_dir c --gather_generation_logits enable", ("switch-with-value",)
    ),
    "a beginning of a flag is not the flag": Case("trtllm-build --checkpoint_dir c --gpt_att auto", ("prefix-flag",)),
    "a slip of the pen is offered the flag": Case(
        "trtllm-build --checkpoint_dir c --max_batchsize 32 --max-input-len 4096", ("unknown-flag", "unknown-flag")
    ),
    "a number has digits": Case("trtllm-build --checkpoint_dir c --max_num_tokens 8,192", ("value-not-offered",)),
    "a flag has its value": Case("trtllm-build --checkpoint_dir", ("no-value",)),
    "gpt-oss is never built": Case(
        """docker run --rm --gpus all -v ~/trtllm-project/engines:/engines \\
nvcr.io/nvidia/tritonserver:24.12-trtllm-python-py3 \\
trtllm-build --checkpoint_dir /engines/trt_ckpt/gpt-oss-20b --output_dir /engines/trt/gpt-oss-20b \\
--gemm_plugin float16 --gpt_attention_plugin float16 --max_batch_size 32 --workers 1""",
        ("no-engine",),
    ),
    "an image build has no gpu": Case(
        "RUN trtllm-build --checkpoint_dir /w/llama --output_dir /w/e --max_batch_size ${MAX_BATCH_SIZE}",
        ("no-gpu-in-a-build",),
    ),
    "nothing builds engines after 1.2.1": Case(
        "trtllm-build --checkpoint_dir c --output_dir e", ("program-removed",), "1.3.0"
    ),
    "two flags exclude each other": Case(
        "trtllm-build --checkpoint_dir c --multiple_profiles enable --opt_num_tokens 64", ("flags-exclude-each-other",)
    ),
    "streaming llm is read and then refused": Case(
        "trtllm-build --checkpoint_dir c --streamingllm enable", ("flag-without-use",)
    ),
    "a model class has file and name": Case("trtllm-build --checkpoint_dir c --model_cls_name Mine", ("missing-flag",)),
    "a right build is left alone": Case(
        "trtllm-build --checkpoint_dir ./ckpt --output_dir ./engine --gemm_plugin fp8 --max_batch_size=64 "
        "--max_seq_len 8192 --use_paged_context_fmha enable --workers 1"
    ),
    "tp size was read in 0.11": Case("trtllm-build --checkpoint_dir c --tp_size 4", (), "0.11.0"),
}

SCRIPTS = {
    "gpt-oss is never converted": Case(
        """docker run --rm --gpus all -v ~/p/models:/models nvcr.io/nvidia/tritonserver:24.12-trtllm-python-py3 \\
python /app/tensorrt_llm/examples/gpt/convert_checkpoint.py --model_dir /models/gpt-oss-20b \\
--output_dir /engines/trt_ckpt/gpt-oss-20b --dtype float16 --tp_size 1""",
        ("no-engine",),
    ),
    "the 24.12 image has no scripts": Case(
        """docker run --rm --device nvidia.com/gpu=all nvcr.io/nvidia/tritonserver:24.12-trtllm-python-py3 \\
python /app/tensorrt_llm/examples/llama/convert_checkpoint.py --model_dir /models/llama --dtype float16""",
        ("script-absent",),
    ),
    "a triton image keeps its scripts elsewhere": Case(
        "python3 /app/tensorrt_llm/examples/quantization/quantize.py --model_dir /m --qformat fp8", ("script-absent",)
    ),
    "the llama script moved": Case(
        """docker run --gpus all --ipc=host -v /path/to/hf-model:/models nvcr.io/nvidia/tensorrt-llm/release:1.2.0 \\
python examples/llama/convert_checkpoint.py --model_dir /models/Llama-3.1-70B-Instruct \\
--output_dir /output/llama70b-checkpoint --dtype float16 --tp_size 4 --pp_size 1""",
        ("script-moved",),
    ),
    "no script converts to float8": Case(
        "python convert_checkpoint.py --model_dir ./hf --output_dir ./ckpt --dtype float8", ("value-not-offered",)
    ),
    "eagle needs its head": Case(
        "python examples/eagle/convert_checkpoint.py --model_dir ./llama-3-eagle-head --output_dir ./c --tp_size 4",
        ("missing-flag",),
    ),
    "eagle is younger than 0.14": Case(
        "python examples/eagle/convert_checkpoint.py --model_dir ./llama-3-eagle-head", ("too-old",), "0.14.0"
    ),
    "experts divide the ranks": Case(
        "python examples/models/core/llama/convert_checkpoint.py --model_dir m --tp_size 2 --moe_ep_size 8",
        ("experts-do-not-divide",),
    ),
    "qwen is told where its model is": Case(
        "python examples/models/core/qwen/convert_checkpoint.py --output_dir c", ("missing-flag",)
    ),
    "quantisation formats have names": Case(
        "python examples/quantization/quantize.py --model_dir m --qformat float8 --kv_cache_dtype fp16 --use_fp8",
        ("value-not-offered", "value-not-offered", "elsewhere-flag"),
    ),
    "a right quantisation is left alone": Case(
        "python examples/quantization/quantize.py --model_dir m --dtype float16 --qformat fp8 --kv_cache_dtype fp8 "
        "--output_dir c --calib_size 512 --tp_size 4"
    ),
    "a right conversion is left alone": Case(
        "python examples/models/core/llama/convert_checkpoint.py --model_dir m --dtype bfloat16 --tp_size 8 "
        "--moe_tp_size 2 --moe_ep_size 4 --use_fp8"
    ),
}

CONTAINERS = {
    "comments inside a continuation": Case(
        """docker run --gpus all \\
--shm-size=16g \\
--name trtllm-server \\
-p 8000:8000 \\
\\
# ── GPU memory allocation ─────────────────────────────
-e GPT_GPU_FRACTION=0.80 \\
-e KV_CACHE_FRACTION=0.90 \\
\\
# ── Batch sizes ───────────────────────────────────────
-e MAX_BATCH_SIZE_GPT=32 \\
trtllm-server:latest""",
        ("comment-in-continuation", "comment-in-continuation", "guide-name", "guide-name", "guide-name"),
    ),
    "a space after the backslash": Case(
        "docker run --rm \\ \n  nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3", ("space-after-backslash",)
    ),
    "a line without its backslash": Case(
        "trtllm-build --checkpoint_dir c \\\n  --max_batch_size 8\n  --workers 1", ("missing-backslash",)
    ),
    "a secret in the environment of a container": Case(
        "docker run -e HF_TOKEN=hf_abcdefghijk --rm vllm/vllm-openai", ("secret-in-words", "no-gpu")
    ),
    "a secret as build argument": Case(
        "docker build --build-arg MODEL_SOURCE=hub --build-arg HF_TOKEN=hf_abcdefghijk -t trtllm-server:latest .",
        ("secret-in-words",),
    ),
    "a login whose user the shell swallows": Case(
        "docker login nvcr.io -u $oauthtoken -p nvapi-0123456789", ("registry-user", "secret-in-words")
    ),
    "a login with an account's name": Case(
        "docker login -u someone@example.com --password-stdin nvcr.io", ("registry-user",)
    ),
    "a right login is left alone": Case("docker login nvcr.io -u '$oauthtoken' --password-stdin"),
    "26.08 has no image with tensorrt-llm": Case(
        "docker pull nvcr.io/nvidia/tritonserver:26.08-trtllm-python-py3", ("no-such-image",)
    ),
    "a release that is not there": Case(
        "docker pull nvcr.io/nvidia/tritonserver:26.13-trtllm-python-py3", ("unknown-release",)
    ),
    "an old release is worth knowing": Case("docker pull nvcr.io/nvidia/tritonserver:24.07-trtllm-python-py3"),
    "a variable of an image nobody reads": Case("ENV GPT_GPU_FRACTION=0.80", ("guide-name",)),
    "a build inside a running container": Case(
        "docker exec -it builder trtllm-build --checkpoint_dir c --max_output_len 128", ("removed-flag",)
    ),
    "nvidia-smi proves little": Case("docker run --rm --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi"),
    "a misspelt option of docker": Case(
        "docker run --shm_size 2g --devices nvidia.com/gpu=all nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3",
        ("unknown-option", "unknown-option"),
    ),
    "an old server in its container": Case(
        """docker run --gpus all -p 8000:8000 -v /opt/engines:/models \\
nvcr.io/nvidia/tritonserver:24.10-trtllm-python-py3 tritonserver --model-repository=/models""",
    ),
}

SERVERS = {
    "models named without explicit mode": Case(
        "tritonserver --model-repository=/triton_repo --load-model=gpt_oss_20b --load-model=bge_reranker",
        ("load-without-explicit",),
    ),
    "a server without models": Case("tritonserver --http-port 8000", ("missing-flag",)),
    "a repository by a short name": Case("tritonserver --model-repo /models", ("unknown-option",)),
    "a slip in a server option": Case(
        "exec tritonserver --model-repository /m --model-controlmode explicit --http_port=9000",
        ("unknown-option", "unknown-option"),
    ),
    "a control mode that is none": Case(
        "tritonserver --model-repository /m --model-control-mode=manual --http-port=http",
        ("value-not-offered", "value-not-offered"),
    ),
    "client shared memory is younger": Case(
        "tritonserver --model-repository /m --allow-client-shm=true", ("unknown-option",), "26.02"
    ),
    "a right server is left alone": Case(
        "tritonserver --model-repository=/models --model-control-mode=explicit --load-model=embedder"
    ),
    "an api server that does not exist": Case(
        """mpirun -n 4 --allow-run-as-root python -m tensorrt_llm.commands.run_api_server \\
--engine_dir /engines/llama70b-engine --tp_size 4 --pp_size 1 --port 8000""",
        ("no-such-module",),
    ),
    "experts do not multiply the ranks": Case(
        """mpirun -n 16 --allow-run-as-root python -m tensorrt_llm.commands.run_api_server \\
--engine_dir /engines/mixtral --tp_size 2 --pp_size 1 --ep_size 8""",
        ("ranks-do-not-match", "no-such-module"),
    ),
    "a launch script is no service": Case(
        "python3 /app/scripts/launch_triton_server.py --world_size=4 --model_repo=/m"
    ),
    "serve has its own option names": Case("trtllm-serve m --max_batchsize 8", ("unknown-option",)),
}

CLIENTS = {
    "there is no list of models": Case(
        "curl http://localhost:8000/v2/models | python3 -m json.tool", ("no-such-endpoint",)
    ),
    "server metadata is no list": Case("curl localhost:8000/v2 | python3 -m json.tool"),
    "the index is asked with post": Case("curl localhost:8000/v2/repository/index", ("wrong-method",)),
    "generate is asked with post": Case("curl localhost:8000/v2/models/ensemble/generate", ("wrong-method",)),
    "triton speaks no openai": Case(
        "curl http://localhost:8000/v1/chat/completions -H 'Content-Type: application/json' -d '{\"model\": \"m\"}'",
        ("no-such-endpoint",),
    ),
    "metrics have a port of their own": Case("curl http://localhost:8000/metrics", ("wrong-port",)),
    "an endpoint with a slip": Case("curl http://localhost:8000/v2/health/redy", ("no-such-endpoint",)),
    "right questions are left alone": Case(
        """curl http://localhost:8000/v2/health/ready
curl http://localhost:8000/v2/models/bge_reranker/ready
curl -s http://localhost:8002/metrics | grep -E "nv_inference_request_success|nv_gpu_memory"
curl -X POST localhost:8000/v2/models/ensemble/generate -d '{
"text_input": "What is machine learning?",
"max_tokens": 20
}'"""
    ),
    "the old hub client": Case(
        """huggingface-cli download BAAI/bge-reranker-large \\
--local-dir ~/trtllm-project/models/bge-reranker-large \\
--local-dir-use-symlinks False""",
        ("program-renamed", "removed-flag"),
    ),
    "the old hub login": Case("huggingface-cli login", ("program-renamed",)),
    "a token of the hub in words": Case(
        "hf download org/model --token hf_abcdefghijk --local-dirs /m", ("secret-in-words", "unknown-option")
    ),
    "a right download is left alone": Case("hf download BAAI/bge-reranker-large --local-dir /m --revision 55611d7"),
    "service kind is gone": Case(
        "genai-perf profile -m ensemble --service-kind triton --backend tensorrtllm --concurrency 8", ("removed-flag",)
    ),
    "the docker runtime is configured anew": Case("sudo nvidia-ctk runtime configure --runtime=docker"),
    "cdi enabled loses other features": Case(
        "sudo nvidia-ctk runtime configure --runtime=docker --cdi.enabled", ("features-lost",)
    ),
}

OTHERS = {
    "torch is not replaced": Case(
        "pip install torch==2.3.0 transformers==4.44.0", ("torch-replaced", "torch-replaced")
    ),
    "an old wheel": Case(
        'pip install "tensorrt-llm==0.14.0" --extra-index-url https://pypi.nvidia.com', ("old-wheel",)
    ),
    "a configuration is not edited in place": Case(
        'sed -i -e "s|__KV_CACHE_FRACTION__|${KV_CACHE_FRACTION}|g" /triton_repo/gpt_oss_20b/config.pbtxt',
        ("edited-in-place",),
    ),
    "an engine is no model": Case(
        "cp -r ./engines/llama3-70b-fp8-tp4/* triton_models/llama3_70b/1/", ("engine-is-no-model",)
    ),
    "the backend is in the image": Case(
        "git clone -b v0.11.0 https://github.com/triton-inference-server/tensorrtllm_backend.git"
    ),
    "servers are not stopped by name": Case("pkill tritonserver"),
    "a client of the engine path": Case(
        "python3 /backend/inflight_batcher_llm/client/inflight_batcher_llm_client.py --request-output-len 200"
    ),
    "an executor config nobody reads": Case(
        """{
"executor_config": {
"max_batch_size": 128,
"max_num_tokens": 16384,
"enable_chunked_prefill": true,
"kv_cache_config": {"free_gpu_memory_fraction": 0.85, "enable_block_reuse": true}
}
}""",
        ("read-by-nobody",),
    ),
    "a program nobody knows": Case("kubectl apply -f triton.yaml"),
    "a text without a command": Case("# nothing here", ("unknown-program",)),
    "a quote that never closes": Case("trtllm-build --checkpoint_dir 'c --workers 1", ("open-quote",)),
}

FILES = {
    "a configuration of gpt-oss for the engine backend": Case(
        GPT_OSS_CONFIG,
        (
            "unfilled-hole",
            "no-engine",
            "unknown-key",
            "unfilled-hole",
            "unknown-key",
            *("missing-key",) * 4,
            "placement",
            *("wrong-shape",) * 4,
        ),
    ),
    "a right configuration is left alone": Case(LLAMA_CONFIG),
    "guided decoding keys are not wanted in 0.18": Case(
        LLAMA_CONFIG.replace('"true"', '"yes"').replace("inflight_fused", "inflite"),
        ("value-not-offered", "value-not-offered"),
        "25.04",
    ),
    "a key with a slip, and one nobody read": Case(
        LLAMA_CONFIG.replace("batch_scheduler_policy", "batch_schedular_policy")
        + 'parameters { key: "house_key" value: { string_value: "1" } }\n',
        ("unknown-key",),
    ),
    "static batching ended": Case(LLAMA_CONFIG.replace("inflight_fused_batching", "V1"), ("value-not-offered",)),
    "a reranker that never batches": Case(RERANKER_CONFIG, ("never-batched", "no-batcher")),
    "entries of a list have commas": Case(RERANKER_CONFIG.replace("},\n", "}\n"), ("unreadable",)),
    "a field nobody knows": Case(
        'name: "m"\nbackend: "python"\nmax_batch: 0\ninput [ { name: "x" data_type: TYPE_FLOAT32 dim: [ 1 ] } ]',
        ("unknown-field", "unknown-field", "value-not-offered"),
    ),
}

BELIEVED = {
    "a batch below one builds nothing": Case(
        "trtllm-build --checkpoint_dir c --max_batch_size -4 --max_num_tokens 0 --max_draft_len=-1 --max_beam_width=-2",
        ("value-not-offered",) * 4,
    ),
    "a size below one is as wrong in a script": Case(
        "python convert_checkpoint.py --model_dir m --output_dir c --tp_size 0 --workers -1", ("value-not-offered",) * 2
    ),
    "a size below one is as wrong when serving": Case(
        "trtllm-serve m --tp_size 0 --max_batch_size=-3", ("value-not-offered",) * 2
    ),
    "a prompt is no longer than its sequence": Case(
        "trtllm-build --checkpoint_dir c --max_input_len 8192 --max_seq_len 4096", ("input-longer-than-sequence",)
    ),
    "a build reads a checkpoint": Case("trtllm-build --output_dir e --gemm_plugin auto", ("missing-flag",)),
    "a build of a configuration needs no checkpoint": Case("trtllm-build --model_config c.json --output_dir e"),
    "two services do not share a port": Case(
        "tritonserver --model-repository=/m --http-port 9000 --grpc-port=9000", ("same-port",)
    ),
    "a default port is taken too": Case("tritonserver --model-repository=/m --metrics-port=8001", ("same-port",)),
    "a service that is off takes no port": Case(
        "tritonserver --model-repository=/m --http-port=8001 --allow-grpc=false"
    ),
    "a port has five digits at most": Case(
        "tritonserver --model-repository=/m --http-port=80000 --grpc-port=-1", ("value-not-offered",) * 2
    ),
    "a port is published once": Case(
        "docker run -p 8000:8000 -p 8000:8001 -p 9000:8000/udp -p 9000:8000 nvcr.io/nvidia/tritonserver:26.07-py3",
        ("same-port",),
    ),
    "an image without tensorrt-llm builds nothing": Case(
        "docker run --rm nvcr.io/nvidia/tritonserver:26.07-py3 trtllm-build --checkpoint_dir c",
        ("no-gpu", "image-without-tensorrt-llm"),
    ),
    "an image without tensorrt-llm serves no engine": Case(
        "docker run --shm-size 2g -v /srv/engines:/engines nvcr.io/nvidia/tritonserver:25.10-vllm-python-py3 "
        "tritonserver --model-repository=/m",
        ("no-gpu", "image-without-tensorrt-llm"),
    ),
    "an image without tensorrt-llm may serve other models": Case(
        "docker run --shm-size 2g nvcr.io/nvidia/tritonserver:26.07-py3 tritonserver --model-repository=/m"
    ),
    "a plain cuda image holds no server": Case(
        "docker run --shm-size 2g nvidia/cuda:13.1.0-runtime-ubuntu24.04 tritonserver --model-repository=/m",
        ("image-without-tensorrt-llm",),
    ),
    "a variable may hold flags": Case(
        "trtllm-build --checkpoint_dir c ${extra_args} --max_batch_size $N $(cat flags) `nproc`"
    ),
    "a variable may hold the checkpoint": Case("trtllm-build ${ARGS} --gemm_plugin auto"),
    "a flag beside a variable is still judged": Case(
        'trtllm-build --checkpoint_dir "$CKPT" ${extra_args} --max_batchsize 8', ("unknown-flag",)
    ),
    "an echo beside a build changes nothing": Case(
        'echo "building"\ntrtllm-build --checkpoint_dir c --workers 2 && echo done'
    ),
    "an echo alone is not judged": Case('echo "--max_batchsize 8"'),
    "flags of 0.11 are not near names of today": Case(
        "trtllm-build --checkpoint_dir c --use_custom_all_reduce disable --context_fmha_fp32_acc enable "
        "--lookup_plugin float16 --pp_size 2",
        ("removed-flag", "run-time-flag", "removed-flag", "elsewhere-flag"),
    ),
    "flags of 0.11 are right for 0.11": Case(
        "trtllm-build --checkpoint_dir c --use_custom_all_reduce disable --context_fmha_fp32_acc enable", (), "0.11.0"
    ),
    "a flag of a later release is told its release": Case(
        "trtllm-build --checkpoint_dir c --norm_quant_fusion enable", ("unknown-flag",), "0.11.0"
    ),
    "a name near to nothing is not replaced": Case(
        "trtllm-build --checkpoint_dir c --use_graph_cache enable --max_tokens 8", ("unknown-flag", "unknown-flag")
    ),
    "a package is known by its whole name": Case(
        "pip install sentence-transformers==3.0.1 torchvision==0.20 my_torch==1.0 transformers-stream==0.1"
    ),
    "a package is known however it is spelt": Case(
        'pip3 install --no-cache-dir "Transformers[torch] == 4.44.0" \'torch===2.3.0; python_version > "3.9"\'',
        ("torch-replaced", "torch-replaced"),
    ),
    "a dockerfile is judged for its own image": Case(
        """ARG TAG=25.04-trtllm-python-py3
FROM nvcr.io/nvidia/tritonserver:${TAG} AS base
RUN apt-get update && apt-get install -y git \\
    # tools for later

    curl
COPY . /app
HEALTHCHECK CMD curl -f localhost:8000/v2/health/ready
CMD ["tritonserver", "--model-repository=/models", "--allow-client-shm=true"]
""",
        ("unknown-option",),
    ),
    "a stage stands on the stage it names": Case(
        """FROM nvcr.io/nvidia/tritonserver:24.12-py3 AS base
FROM base
RUN --mount=type=cache,target=/c pip install transformers==4.44.0 && \\
    trtllm-build --checkpoint_dir c --max_output_len 8
""",
        ("torch-replaced", "removed-flag", "image-without-tensorrt-llm", "no-gpu-in-a-build"),
    ),
    "a dockerfile of an image that is not there": Case(
        "# syntax=docker/dockerfile:1\nFROM nvcr.io/nvidia/tritonserver:26.13-trtllm-python-py3\nWORKDIR /w\n",
        ("unknown-release",),
    ),
    "a right dockerfile is left alone": Case(
        """FROM nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3
ENV LOG=1
RUN pip install --no-cache-dir sentence-transformers==3.0.1
ENTRYPOINT ["tritonserver"]
"""
    ),
    "a compose file is judged for its own image": Case(
        """services:
  triton:
    image: nvcr.io/nvidia/tritonserver:25.04-trtllm-python-py3
    command: >
      tritonserver --model-repository=/models
      --http-port=8000 --grpc-port=8000
    ports:
      - "8000:8000"
  loki:
    image: grafana/loki:3
""",
        ("same-port", "no-gpu"),
    ),
    "a pod is judged for its own image": Case(
        """apiVersion: v1
kind: Pod
spec:
  containers:
  - name: triton
    image: nvcr.io/nvidia/tritonserver:24.10-py3
    command: ["tritonserver"]
    args:
    - --model-repository=/engines
    - --model-control-mode=manual
    resources:
      limits: {nvidia.com/gpu: 1}
""",
        ("value-not-offered", "image-without-tensorrt-llm"),
    ),
    "a shell inside a container is judged": Case(
        "docker run --rm nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3 bash -lc "
        '"cd /w && trtllm-build --checkpoint_dir c --max_batchsize 4 && ls"',
        ("no-gpu", "unknown-flag"),
    ),
    "a script of a pod is judged": Case(
        """kind: Deployment
spec:
  containers:
  - name: a
    image: nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3
    command:
    - bash
    - -c
    - |
      trtllm-build --checkpoint_dir c --max_batchsize 3
      tritonserver --model-repository=/m
""",
        ("unknown-flag", "no-gpu"),
    ),
    "a compose file that builds its image is judged": Case(
        "services:\n  t:\n    build: .\n    command: tritonserver --model-repo /m\n", ("unknown-option",)
    ),
    "a command in a running container is judged": Case(
        "docker compose exec -T t trtllm-build --checkpoint_dir c --max_batchsize 4\n"
        "kubectl exec -it pod -- trtllm-build --checkpoint_dir c --max_batchsize 4",
        ("unknown-flag", "unknown-flag"),
    ),
    "the build is judged as a module too": Case(
        "python3 -m tensorrt_llm.commands.build --checkpoint_dir c --max_batchsize 3", ("unknown-flag",)
    ),
    "holes of a template are variables": Case(
        "trtllm-build --checkpoint_dir {{ ckpt }} --max_batch_size {{ n }} --workers={{ n }}"
    ),
    "wrappers are looked past": Case(
        "sudo -u me nice -n 10 timeout -k 5 600 numactl -N 0 trtllm-build --checkpoint_dir c --max_batchsize 4",
        ("unknown-flag",),
    ),
    "a prompt and a subshell are looked past": Case(
        "root@host:/w# (cd x && trtllm-build --checkpoint_dir c --workers 2 2>&1 | tee log)\n"
        "$ if [ ! -d e ]; then trtllm-build --checkpoint_dir c; fi"
    ),
    "what a command reads is no command": Case(
        "cat > args.txt <<'EOF'\ntrtllm-build --max_batchsize 4\n  --bogus\nEOF\n"
        "trtllm-build --checkpoint_dir c $(cat args.txt)"
    ),
}

ALL = BUILDS | SCRIPTS | CONTAINERS | SERVERS | CLIENTS | OTHERS | FILES | BELIEVED | AROUND
