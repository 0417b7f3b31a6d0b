"""`enginehouse migrate`: the place of each word of a `vllm serve` in an inventory, and the words without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.io.inventory import load_plan
from deploy.migrate.findings import Migration
from deploy.migrate.migration import migrate
from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal

LONG = (
    "vllm serve Qwen/Qwen3-8B --served-model-name qwen gpt-4o --max-model-len 16k --max-num-seqs 64 "
    "--kv-cache-dtype fp8_e4m3 --enable-prefix-caching --tool-call-parser hermes --reasoning-parser qwen3 --port 9000"
)
COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.11.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192
    ports: ["8000:8000"]
"""
KUBERNETES = """apiVersion: v1
kind: Pod
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:latest
    args: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192"]
"""


def planned(migration: Migration, folder: Path) -> Plan:
    """The plan of the written inventory."""
    (folder / "fleet.py").write_text(migration.inventory)
    return load_plan(str(folder / "fleet.py"))


def why(text: str, option: str) -> str:
    """The reason why an option has no place."""
    return next(finding.why for finding in migrate(text).findings if finding.words.split()[0] == option)


def test_supported_options_of_vllm_reach_the_plan(tmp_path: Path) -> None:
    """16k is 16,000 as vLLM reads it; the second name is an alias of the gateway."""
    (mine,) = planned(migrate(LONG), tmp_path).slices
    (model,) = mine.servers[0].models
    assert (model.name, model.kv_dtype, model.settings["max_batch_size"]) == ("qwen", "fp8", 64)
    assert model.settings["max_seq_len"] == 16_000 and model.kv_reuse
    assert mine.gateway is not None and mine.gateway.ports == (9000,)
    assert [alias.name for alias in mine.gateway.aliases if alias.name == "gpt-4o"] == ["gpt-4o"]


def test_every_word_of_a_line_that_fits_has_a_place() -> None:
    """The exit status is 0."""
    assert migrate(LONG).is_whole
    assert CliRunner().invoke(enginehouse, ["migrate", LONG]).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        "sudo CUDA_VISIBLE_DEVICES=0 /opt/venv/bin/vllm serve --max-model-len=8192 --trust-remote-code Qwen/Qwen3-8B",
        "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B \\\n  --max-model-len 8192",
        "docker run --gpus all -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B "
        "--max_model_len 8192",
        COMPOSE,
        KUBERNETES,
    ],
)
def test_each_way_to_start_the_server_is_read(text: str, tmp_path: Path) -> None:
    """A line, a variable before it, the module, Docker, compose, Kubernetes."""
    (mine,) = planned(migrate(text), tmp_path).slices
    assert mine.servers[0].models[0].weights.repository == "Qwen/Qwen3-8B"
    assert mine.servers[0].models[0].settings["max_seq_len"] == 8192


@pytest.mark.parametrize(
    ("words", "gpus", "servers"),
    [("-tp 4", 4, 1), ("--tensor-parallel-size 2 -dp 2", 4, 2), ("--data-parallel-size 3", 3, 3)],
)
def test_parallel_words_become_gpus_and_servers(words: str, gpus: int, servers: int, tmp_path: Path) -> None:
    """Each replica becomes a server of the inventory."""
    (mine,) = planned(migrate(f"vllm serve openai/gpt-oss-120b {words}"), tmp_path).slices
    assert (mine.machine.gpus, len(mine.servers)) == (gpus, servers)


def test_encoders_are_read_as_encoders(tmp_path: Path) -> None:
    """The catalog decides which models are encoders; options of an LLM are not written for encoders."""
    migration = migrate("vllm serve BAAI/bge-reranker-large --task score --max-model-len 256 --max-num-seqs 8")
    (model,) = planned(migration, tmp_path).slices[0].servers[0].models
    assert (model.kind, model.settings["max_tokens"]) == ("reranker", "256")
    assert [finding.words for finding in migration.findings if not finding.place] == ["--max-num-seqs 8"]


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--gpu-memory-utilization 0.9", "MiB"),
        ("--kv-cache-dtype fp8_e5m2", "e4m3"),
        ("--revision main", "40 hexadecimal"),
        ("--host 0.0.0.0", "loopback"),
        ("--tool-call-parser pythonic", "hermes"),
        ("--dtype float32", "16 bits"),
        ("--max-model-len $LENGTH", "shell"),
        ("--max-model-len long", "not a number"),
        ("--max-model-len auto", "the longest that fits"),
        ("--quantization bitsandbytes", "precision"),
        ('--speculative-config \'{"method": "ngram"}\'', "trained"),
        ("--compilation-config.level 3", "kernels"),
        ("--no-enable-dbo", "kernels"),
        ("--trust-remote-code", "pinned"),
    ],
)
def test_an_unsupported_option_of_vllm_is_named_with_the_reason(option: str, word: str) -> None:
    """The line then has a word without a place."""
    text = f"vllm serve Qwen/Qwen3-8B {option}"
    assert word in why(text, option.split()[0])
    assert CliRunner().invoke(enginehouse, ["migrate", text]).exit_code == 2


def test_an_unknown_option_is_not_guessed() -> None:
    """The option is marked, with the nearest name."""
    (finding,) = [
        candidate
        for candidate in migrate("vllm serve Qwen/Qwen3-8B --max-num-seqz 8").findings
        if not candidate.is_known
    ]
    assert finding.why == "not read here; near --max-num-seqs"


def test_a_key_is_never_repeated() -> None:
    """Keys of options and of variables are left out."""
    text = "VLLM_API_KEY=sk-secret-1 vllm serve Qwen/Qwen3-8B --api-key sk-secret-2 --hf-token hf_secret3"
    for words in (["migrate", text], ["migrate", text, "--json"]):
        assert "secret" not in CliRunner().invoke(enginehouse, words).output.replace("a secret stands", "")


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("acme/new-model", "acme/new-model"),
        ("acme/new-model --revision v2", "acme/new-model@v2"),
        (f"acme/new-model --revision {'a' * 40}", f"acme/new-model@{'a' * 40}"),
    ],
)
def test_a_model_that_the_catalog_lacks_keeps_its_name(words: str, source: str, tmp_path: Path) -> None:
    """The plan names the command that locks it; no number and no commit is invented."""
    migration = migrate(f"vllm serve {words}")
    assert migration.is_whole and f'"{source}"' in migration.inventory
    with pytest.raises(Refusal) as refused:
        planned(migration, tmp_path)
    assert refused.value.attempt == f"enginehouse pin {tmp_path}/fleet.py"


@pytest.mark.parametrize(
    ("repository", "declared"),
    [
        ("BAAI/bge-m3", "Embedder"),
        ("intfloat/multilingual-e5-large", "Embedder"),
        ("sentence-transformers/all-MiniLM-L12-v2", "Embedder"),
        ("BAAI/bge-reranker-v2-m3", "Reranker"),
        ("cross-encoder/ms-marco-MiniLM-L6-v2", "Reranker"),
        ("Qwen/Qwen3-32B", "LLM"),
    ],
)
def test_an_unread_encoder_is_declared_by_its_name(repository: str, declared: str) -> None:
    """vLLM guesses from the files; the plan, which has read them, refuses a wrong guess."""
    assert f"model = {declared}(\n" in migrate(f"vllm serve {repository}").inventory


def test_a_directory_stays_a_directory(tmp_path: Path) -> None:
    """The directory is the source of the model, from which the plan reads every number."""
    migration = migrate(f"vllm serve {tmp_path}/weights")
    assert migration.is_whole and f'LLM(\n    "{tmp_path}/weights"' in migration.inventory


@pytest.mark.parametrize(
    "text", ["", "infinity_emb v2 --model-id BAAI/bge-m3", "vllm serve --max-model-len 8192", "vllm bench"]
)
def test_text_without_a_server_or_a_model_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        migrate(text)


def test_no_option_is_in_both_tables() -> None:
    """An option has a place, or a reason why it has none."""
    assert set(PLACES) & set(NO_PLACE) == set()
