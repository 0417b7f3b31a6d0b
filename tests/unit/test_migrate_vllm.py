"""`enginehouse migrate`: LLMs whose settings vLLM supports and Triton's TensorRT-LLM does not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from deploy.catalog import DEFAULT_RELEASE, RELEASES
from deploy.catalog.runtimes import VLLM, rows_of
from deploy.io.inventory import load_plan
from deploy.migrate.findings import Migration
from deploy.migrate.migration import migrate
from deploy.migrate.vllm_only import STARTED_WITH
from deploy.planning.plan import Plan

AWQ = {"quant_method": "awq", "bits": 4}
CHANNELS = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"}}},
}
FP8 = "vllm serve Qwen/Qwen3-8B --quantization fp8"
IMAGE = rows_of(VLLM)[0].image


def weights(folder: Path, quantization: dict[str, Any]) -> Path:
    """A directory with a small Llama's config.json and an empty safetensors header."""
    folder.mkdir(parents=True)
    numbers = {"num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8}
    sizes = {"intermediate_size": 4096, "vocab_size": 32_000, "max_position_embeddings": 32_768}
    config = {"architectures": ["LlamaForCausalLM"], "quantization_config": quantization, **numbers, **sizes}
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": "I32", "shape": [256], "data_offsets": [0, 1024]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(1024))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    return folder


def planned(migration: Migration, folder: Path) -> Plan:
    """The plan of the written inventory."""
    (folder / "fleet.py").write_text(migration.inventory)
    return load_plan(str(folder / "fleet.py"))


def runtimes(plan: Plan) -> list[tuple[str, ...]]:
    """The start lines of the programs beside Triton."""
    (mine,) = plan.slices
    models = [model for server in mine.servers for model in server.models]
    return [model.runtime.arguments for model in models if model.runtime]


def place(migration: Migration, option: str) -> str:
    """The place of a word."""
    return next(finding.place for finding in migration.findings if finding.words == option)


@pytest.mark.parametrize(
    ("name", "quantization", "words", "title"),
    [
        ("tiny-AWQ", AWQ, "", "AWQ"),
        ("tiny-AWQ", AWQ, "--quantization awq_marlin --dtype half", "AWQ"),
        ("tiny", AWQ, "-q awq", "AWQ"),
        ("tiny-GPTQ-Int4", {"quant_method": "gptq", "bits": 4}, "--quantization gptq_marlin", "GPTQ"),
        ("tiny-FP8-dynamic", CHANNELS, "-dp 2", "compressed-tensors, FP8 per channel"),
        ("tiny", CHANNELS, "--quantization compressed-tensors --dtype bfloat16", "compressed-tensors"),
    ],
)
def test_a_format_that_only_vllm_reads_becomes_a_plan_with_vllm(
    name: str, quantization: dict[str, Any], words: str, title: str, tmp_path: Path
) -> None:
    """A line of the output has the reason."""
    directory = weights(tmp_path / name, quantization)
    migration = migrate(f"vllm serve {directory} --max-model-len 8192 {words}")
    assert len(runtimes(planned(migration, tmp_path))) == (2 if "-dp" in words else 1) and migration.is_whole
    trtllm = RELEASES[DEFAULT_RELEASE].trtllm
    reason = f"TensorRT-LLM {trtllm} of release {DEFAULT_RELEASE} does not read {title}"
    assert place(migration, "the program") == f'runtime="vllm", image="{IMAGE}": {reason}'


MANIFEST = """kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.11.0
    args: [--model, Qwen/Qwen3-8B, --quantization, fp8, --port, "8010", --kv-cache-dtype, bfloat16]
"""


@pytest.mark.parametrize(
    "text",
    [f"{FP8} --dtype bfloat16", f"docker run --gpus all vllm/vllm-openai --model {FP8.split(maxsplit=2)[2]}", MANIFEST],
    ids=["line", "docker run", "manifest"],
)
def test_fp8_of_16_bit_weights_is_made_by_vllm_while_it_loads_them(text: str, tmp_path: Path) -> None:
    """No port is used twice, and a cache type without a word in vLLM is not written."""
    (arguments,) = runtimes(planned(migrate(text), tmp_path))
    assert arguments[arguments.index("--quantization") + 1] == "fp8" and "--dtype" not in arguments
    assert not any(finding.place.startswith("release=") for finding in migrate(text).findings)


@pytest.mark.parametrize("port", [8000, 8003, 8005, 9000])
@pytest.mark.parametrize("words", ["-dp 3", "-tp 2 -dp 2"])
def test_each_replica_has_a_vllm_on_a_port_of_its_own(words: str, port: int, tmp_path: Path) -> None:
    count = int(words.rsplit(" ", 1)[1])
    assert len(runtimes(planned(migrate(f"{FP8} {words} --port {port}"), tmp_path))) == count


@pytest.mark.parametrize("option", STARTED_WITH)
def test_an_option_that_every_vllm_is_started_with_has_a_place(option: str, tmp_path: Path) -> None:
    """The start line of the plan has these words."""
    migration = migrate(f"{FP8} {option}")
    (arguments,) = runtimes(planned(migration, tmp_path))
    assert place(migration, option) == f"vLLM is started with {STARTED_WITH[option]}"
    assert STARTED_WITH[option] in " ".join(arguments)


def test_options_of_vllm_reach_its_start_line(tmp_path: Path) -> None:
    words = "--max-model-len 8k --max-num-seqs 48 --max-num-batched-tokens 4096 --kv-cache-dtype fp8"
    migration = migrate(f"{FP8} --no-enable-prefix-caching -pp 2 {words} --served-model-name chat")
    (arguments,) = runtimes(planned(migration, tmp_path))
    line = f"{' '.join(arguments)} "
    expected = "--max-model-len 8000 --max-num-seqs 48 --max-num-batched-tokens 4096 --kv-cache-dtype fp8 "
    assert expected in line and "--pipeline-parallel-size 2" in line and "--served-model-name chat" in line
    assert "--no-enable-prefix-caching" in arguments and migration.is_whole


def test_no_reason_speaks_of_a_program_that_does_not_serve_the_model() -> None:
    words = "--enforce-eager --scheduling-policy priority --enable-expert-parallel -tp 2 --speculative-config '{}'"
    migration = migrate(f"{FP8} {words}")
    reasons = [finding.why for finding in migration.findings if not finding.place]
    assert len(reasons) == 4 and not any(reason.startswith("TensorRT-LLM") for reason in reasons)
    assert "expert" not in migration.inventory


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B",
        "vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 --quantization fp8 -tp 2",
        "vllm serve Qwen/Qwen3-32B-FP8 --quantization fp8",
        "vllm serve openai/gpt-oss-20b --quantization mxfp4",
        "vllm serve unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit --quantization bitsandbytes",
        "vllm serve BAAI/bge-m3 --quantization fp8",
    ],
)
def test_a_model_that_only_triton_can_serve_stays_with_triton(text: str) -> None:
    assert "runtime" not in migrate(text).inventory
