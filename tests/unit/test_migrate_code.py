"""Servers in Python code and in values of charts are migrated; servers that are not read are named."""

from __future__ import annotations

from textwrap import indent

import pytest

from deploy.linter import check
from deploy.migrate.migration import migrate
from deploy.refusals.errors import Refusal

TOKEN = "hf_" + "abcdefghijklmnopqrst"
RAY = """llm_configs:
  - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-8B}
    engine_kwargs: {max_model_len: 1024, gpu_memory_utilization: 0.75}
    deployment_config: {autoscaling_config: {max_replicas: 4}}
"""
CHART = f"""servingEngineSpec:
  modelSpec:
  - name: llama3
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    requestGPU: 2
    vllmConfig: {{enableChunkedPrefill: false, maxModelLen: 16384, extraArgs: ["--disable-log-requests"]}}
    hf_token: {TOKEN}
"""
CODE = """from vllm import LLM
n = 2
llm = LLM(model="Qwen/Qwen3-8B", tensor_parallel_size=n, max_model_len=8192, enable_prefix_caching=False)
"""
UNSET = "services:\n  a:\n    image: x/y\n    command: ${X:+--flag}\n"
MOVED = {
    CODE: ("max_seq_len=8192", "reuse=False"),
    'import tensorrt_llm\nLLM("Qwen/Qwen3-8B", tensor_parallel_size=2, max_batch_size=8)': (
        "tensor=2",
        "max_batch_size=8",
    ),
    'LLMConfig(model_loading_config=dict(model_id="Qwen/Qwen3-8B"), engine_kwargs=dict(tensor_parallel_size=2))': (
        "tensor=2",
    ),
    """import docker
docker.from_env().containers.run("vllm/vllm-openai:v0.11.0", ["--model", "Qwen/Qwen3-8B", "--max-model-len", "1024"])
""": ("Qwen/Qwen3-8B", "max_seq_len=1024"),
    'PS C:\\Users\\me> $m = "Qwen/Qwen3-8B"\nPS C:\\Users\\me> vllm serve $m `\n>> --max-model-len 1024\n': (
        "Qwen/Qwen3-8B",
        "max_seq_len=1024",
    ),
    RAY: ("max_seq_len=1024", 'name="qwen"'),
    f"kind: RayService\nspec:\n  serveConfigV2: |\n{indent(RAY, '    ')}": ("max_seq_len=1024",),
    CHART: ("tensor=2", "chunked_prefill=False", "max_seq_len=16384"),
    "model: Qwen/Qwen3-8B\nmax-model-len: 4096\nport: 9000\n": ("max_seq_len=4096", "ports=(9000,)"),
    "lmdeploy serve api_server Qwen/Qwen3-8B --session-len 32768 --tp 2": ("max_seq_len=32768", "tensor=2"),
    "python -m dynamo.vllm --model Qwen/Qwen3-8B": ("Qwen/Qwen3-8B",),
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 8 --dp 8 --enable-dp-attention": ("gpus=8",),
}


@pytest.mark.parametrize("text", MOVED, ids=lambda text: text[:40].replace("\n", " "))
def test_settings_of_code_and_charts_have_their_places(text: str) -> None:
    migration = migrate(text)
    assert [part for part in MOVED[text] if part not in migration.inventory] == []
    assert TOKEN not in migration.inventory + str(migration.findings)


def test_a_value_that_only_the_code_knows_is_reported() -> None:
    (finding,) = [finding for finding in migrate(CODE).findings if finding.words.startswith("--tensor-parallel-size")]
    assert finding.why == "its value is known only when the shell runs it"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("ollama run llama3.3:70b", "Ollama"),
        ("llama-server -m /models/qwen3-8b-q4_k_m.gguf -c 8192", "llama.cpp"),
        ("docker run nvcr.io/nvidia/tritonserver:25.10-py3 tritonserver --model-repository=/m", "Triton itself"),
        ("trtllm-build --checkpoint_dir c --output_dir e", "a build of TensorRT-LLM"),
        ("genai-perf profile -m llama --endpoint-type chat", "a load for a server"),
    ],
)
def test_a_program_that_is_not_read_is_refused_by_its_name(text: str, title: str) -> None:
    with pytest.raises(Refusal, match=f"it names {title}: "):
        migrate(text)


@pytest.mark.parametrize(
    "text", ["LLM(", "llm = LLM(model=x)\n", "model: [1, 2]\nport: 1\n", "modelURL: {a: b}\n", "LLM(" * 400, UNSET]
)
def test_code_without_a_model_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        migrate(text)


def test_a_health_check_of_another_server_is_not_judged_as_one_of_triton() -> None:
    service = "    image: {}\n    healthcheck: {{test: [CMD, curl, -f, 'http://localhost:8000/health']}}\n"
    kinds = {
        image: [
            finding.kind
            for row in check("services:\n  llm:\n" + service.format(image)).checked
            for finding in row.findings
            if finding.is_wrong and finding.kind == "no-such-endpoint"
        ]
        for image in ("vllm/vllm-openai:v0.11.0", "nvcr.io/nvidia/tritonserver:25.10-py3")
    }
    assert list(kinds.values()) == [[], ["no-such-endpoint"]]


def test_a_key_among_the_words_of_another_server_is_wrong_and_hidden() -> None:
    report = check("vllm serve Qwen/Qwen3-8B --api-key sk-abcdefghijklmnopqrstuvwx")
    (finding,) = [finding for row in report.checked for finding in row.findings]
    assert (finding.kind, finding.is_wrong, "sk-abc" in str(report)) == ("secret-in-words", True, False)


def test_the_program_behind_srun_and_the_ranks_launcher_is_judged() -> None:
    command = "srun -N 2 --ntasks-per-node 8 --mpi=pmix trtllm-llmapi-launch trtllm-serve /m --tp_sise 16"
    (row,) = check(command).checked
    assert "trtllm-serve" in row.where and [finding.is_wrong for finding in row.findings] == [True]
