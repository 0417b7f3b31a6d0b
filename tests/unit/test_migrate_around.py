"""`enginehouse migrate`: shells, containers and manifests around a server, other servers, and sources of weights."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.io.inventory import load_plan
from deploy.linter import check
from deploy.migrate.findings import Finding
from deploy.migrate.migration import migrate
from deploy.migrate.servers import ENGINES
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from tests.unit.migrated import COMPOSE, DEPLOYMENT, OPTIONS, SHELLS


def planned(text: str, folder: Path) -> Plan:
    """The plan of the written inventory."""
    (folder / "fleet.py").write_text(migrate(text).inventory)
    return load_plan(str(folder / "fleet.py"))


def findings(text: str) -> dict[str, Finding]:
    """The findings by their words."""
    return {finding.words: finding for finding in migrate(text).findings}


def test_keys_are_reported_in_the_order_of_the_text() -> None:
    names = [f"key{letter}" for letter in "qjxcbnmwzp"]
    spec = "".join(f"  {name}: 1\n" for name in names)
    text = f"kind: LLMInferenceService\nspec:\n  model: {{uri: hf://Qwen/Qwen3-8B}}\n{spec}"
    text += f"  template:\n    containers:\n    - name: main\n{spec.replace('  ', '      ')}"
    reported = [finding.words for finding in migrate(text).findings if finding.words.startswith("key")]
    assert reported == [*names, *names]
    service = "services:\n  a:\n    image: vllm/vllm-openai:v1\n    command: --model Qwen/Qwen3-8B\n"
    text = f"{service}{spec.replace('  ', '    ')}    deploy:\n{spec.replace('  ', '      ')}"
    reported = [finding.words for finding in migrate(text).findings if "key" in finding.words]
    assert reported == [*names, *(f"deploy.{name}" for name in names)]
    wrong = [
        finding.seen.partition(": ")[2] for row in check(text).checked for finding in row.findings if finding.is_wrong
    ]
    assert [name for name in wrong if name.startswith("key")] == names


@pytest.mark.parametrize("text", SHELLS.values(), ids=[name.replace(" ", "_") for name in SHELLS])
def test_a_server_is_recognised_inside_surrounding_text(text: str, tmp_path: Path) -> None:
    (mine,) = planned(text, tmp_path).slices
    (model,) = mine.servers[0].models
    assert (model.weights.repository, model.settings["max_seq_len"]) == ("Qwen/Qwen3-8B", 8192)


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:v1\n    command: [python3, /app/serve.py]\n",
        "kind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:v1\n    command: [sh, -c]\n    args: [sleep 9]\n",
        "docker run --entrypoint python3 vllm/vllm-openai server.py --model Qwen/Qwen3-8B",
        "docker run vllm/vllm-openai /bin/sh",
        "vllm serve /usr/bin/python3",
        "vllm serve $MODEL",
        "echo 'vllm serve Qwen/Qwen3-8B'",
        "pip install vllm",
        "docker run -p 8000:8000 nginx",
    ],
)
def test_no_model_is_named_after_a_program(text: str) -> None:
    """A text that starts another program, or names no model, is refused."""
    with pytest.raises(Refusal):
        migrate(text)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("/models/x", '"/models/x",  # yours'),
        ("./models/x", '"./models/x",  # yours'),
        ("~/x/y", '"~/x/y",  # yours'),
        ("models/org/x", '"./models/org/x",  # yours'),
        ("acme/x", '"acme/x",'),
        ("s3://bucket/acme/x", '"./x",  # yours'),
        ("/root/.cache/huggingface/hub/models--acme--x/snapshots/" + "a" * 40, f'"acme/x@{"a" * 40}",'),
        ("/cache/models--Qwen--Qwen3-8B", 'weights=Weights.hub("Qwen/Qwen3-8B", "b968826d9c46'),
        ("hf://acme/x", '"acme/x",'),
        ("https://huggingface.co/acme/x", '"acme/x",'),
    ],
)
def test_weights_come_from_where_the_text_says(model: str, line: str) -> None:
    """The source is a directory, a hub's repository, its cache with a commit, or a bucket that is copied first."""
    assert f"    {line}" in migrate(f"vllm serve {model}").inventory


def test_a_directory_of_a_container_is_that_of_its_host() -> None:
    text = "docker run -v /srv/w:/models vllm/vllm-openai --model /models/x"
    assert '"/srv/w/x",  # yours' in migrate(text).inventory
    assert '"/srv/weights/tuned",  # yours' in migrate(DEPLOYMENT).inventory


def test_a_published_port_is_the_gateways(tmp_path: Path) -> None:
    """Triton itself uses 8000, so clients of 8000 get another port."""
    (mine,) = planned("docker run -p 8084:8000 vllm/vllm-openai --model Qwen/Qwen3-8B", tmp_path).slices
    assert mine.gateway is not None and mine.gateway.ports == (8084,)
    place = findings("docker run -p 8000:8000 vllm/vllm-openai --model Qwen/Qwen3-8B")["port 8000:8000"].place
    assert "clients ask 8080" in place


def test_named_gpus_are_the_servers(tmp_path: Path) -> None:
    (mine,) = planned(COMPOSE, tmp_path).slices
    assert (mine.servers[0].gpus, mine.machine.gpus) == ((2, 3), 4)


def test_replicas_are_hosts() -> None:
    """A group of pods over which a model is split has no place."""
    assert migrate(DEPLOYMENT).inventory.count(".example.internal") == 3
    text = """kind: LeaderWorkerSet
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    leaderTemplate: {spec: {containers: [{name: a, image: "vllm/vllm-openai:v1", args: [--model, Qwen/Qwen3-8B]}]}}
    workerTemplate: {spec: {containers: [{name: b, image: "vllm/vllm-openai:v1", command: [sleep]}]}}
"""
    assert "not split over hosts" in findings(text)["size: 2"].why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            COMPOSE,
            "image container_name port -tp HF_TOKEN VLLM_USE_V1 NCCL_DEBUG volume ipc env_file healthcheck depends_on "
            "device_ids service",
        ),
        (
            DEPLOYMENT,
            "image imagePullPolicy --model --tensor-parallel-size --served-model-name VLLM_LOGGING_LEVEL HF_TOKEN "
            "envFrom port cpu memory nvidia.com/gpu readinessProbe mount volume replicas strategy nodeSelector sidecar",
        ),
    ],
    ids=["compose", "deployment"],
)
def test_every_key_of_a_file_is_placed_or_listed(text: str, words: str) -> None:
    mentioned = " ".join(findings(text))
    assert [word for word in words.split() if word not in mentioned] == []
    assert "hf_abcdefghijk" not in str(migrate(text))


@given(st.lists(st.sampled_from(OPTIONS), unique_by=lambda option: option.split()[0], max_size=8))
def test_every_option_of_docker_is_placed_or_listed(options: list[str]) -> None:
    """No option is skipped, and the inventory is Python."""
    migration = migrate(f"docker run {' '.join(options)} vllm/vllm-openai:v1 --model Qwen/Qwen3-8B")
    mentioned = " ".join(finding.words for finding in migration.findings)
    missing = [option for option in options if option.replace("=", " ").split()[-1].partition("=")[0] not in mentioned]
    assert (missing, bool(ast.parse(migration.inventory))) == ([], True)


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--tensor_parallel 2", "parallel=Parallel(tensor=2)"),
        ("--tensor-par=2", "parallel=Parallel(tensor=2)"),
        ("--max-model 4096", "max_seq_len=4,096"),
        ("--enable-prefix", "kv_cache=KVCache(reuse=True)"),
    ],
)
def test_the_beginning_of_an_option_is_that_option(option: str, place: str) -> None:
    """Python's argparse accepts prefixes; an ambiguous prefix is not read."""
    assert findings(f"vllm serve Qwen/Qwen3-8B {option}")[option.replace("_", "-").replace("=", " ")].place.startswith(
        place
    )
    assert not findings("vllm serve Qwen/Qwen3-8B --max-num 8")["--max-num 8"].is_known


def test_an_option_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    (mine,) = planned("vllm serve openai/gpt-oss-120b -tp 2 --tensor-parallel-size 2", tmp_path).slices
    assert mine.machine.gpus == 2


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "python3 -m sglang.launch_server --model-path openai/gpt-oss-120b --tp 2 --context-length 32768 "
            "--max-running-requests 64 --chunked-prefill-size 8192 --tool-call-parser gpt-oss --disable-radix-cache",
            "max_seq_len=32768 max_batch_size=64 max_num_tokens=32768 reuse=False tensor=2 harmony",
        ),
        (
            "docker run --gpus all -p 8081:80 -e NUM_SHARD=2 -e MAX_TOTAL_TOKENS=8192 "
            "ghcr.io/huggingface/text-generation-inference:3 --model-id meta-llama/Llama-3.1-8B-Instruct "
            "--max-batch-total-tokens 65536",
            "max_seq_len=8192 tokens=65536 tensor=2 ports=(8081,)",
        ),
        (
            "text-embeddings-router --model-id sentence-transformers/all-MiniLM-L6-v2 --max-batch-tokens 8192 "
            "--max-client-batch-size 64 --port 8082",
            "Embedder( max_batch_tokens=8192 max_items=64 ports=(8082,)",
        ),
        (
            "docker run --rm --gpus all -e NGC_API_KEY -e NIM_MAX_MODEL_LEN=8192 -e NIM_TENSOR_PARALLEL_SIZE=2 "
            "-p 8090:8000 nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.5",
            "max_seq_len=8192 tensor=2 ports=(8090,) meta-llama/Llama-3.1-8B-Instruct",
        ),
        (
            "kind: InferenceService\nspec:\n  predictor:\n    minReplicas: 1\n    model:\n"
            "      modelFormat: {name: huggingface}\n      args: [--model_name=chat, --max-model-len=8192]\n"
            "      storageUri: hf://Qwen/Qwen3-8B\n      resources: {limits: {nvidia.com/gpu: 1}}\n",
            'name="chat" max_seq_len=8192 Qwen/Qwen3-8B',
        ),
    ],
    ids=["SGLang", "TGI", "TEI", "NIM", "KServe"],
)
def test_other_servers_are_read_in_their_own_words(text: str, lines: str, tmp_path: Path) -> None:
    migration = migrate(text)
    assert [part for part in lines.split() if part not in migration.inventory] == []
    assert planned(text, tmp_path).slices
    assert [finding.words for finding in migration.findings if not finding.is_known] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --quantization awq", 'path="engine"'),
        ("vllm serve openai/gpt-oss-20b --enable-chunked-prefill", "whole"),
        ("vllm serve Qwen/Qwen3-8B --dtype float16", ""),
        ("vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 --quantization fp8 -tp 2", ""),
    ],
)
def test_weights_are_served_as_they_are_published(text: str, word: str, tmp_path: Path) -> None:
    """A setting that the plan would refuse is not written; the reason is reported."""
    assert planned(text, tmp_path).slices
    assert word in " ".join(finding.why for finding in migrate(text).findings)
    assert "auto" not in migrate("vllm serve acme/x-AWQ --quantization awq").inventory


@pytest.mark.parametrize("model", ["BAAI/bge-m3", "intfloat/e5-large-v2", "Qwen/Qwen3-Embedding-0.6B"])
def test_a_model_that_is_named_like_an_embedder_is_not_an_llm(model: str) -> None:
    assert "Embedder(" in migrate(f"vllm serve {model}").inventory
    assert "Reranker(" in migrate("vllm serve BAAI/bge-reranker-v2-m3").inventory


def test_no_option_has_two_meanings_in_a_server() -> None:
    """An option has a place, or a reason why it has none."""
    for engine in ENGINES:
        assert set(engine.renamed) & set(engine.no_place) == set(), engine.title


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(f"{' '.join(SHELLS.values())} {COMPOSE} {DEPLOYMENT}".split()), max_size=30))
def test_no_mangled_text_crashes_migrate(words: list[str]) -> None:
    """Each text leads to an inventory in Python, or to a refusal."""
    with contextlib.suppress(Refusal):
        assert ast.parse(migrate(" ".join(words)).inventory)


@pytest.mark.parametrize(
    "text",
    [
        "docker run -e HF_TOKEN={} -e NGC_API_KEY={} vllm/vllm-openai --model Qwen/Qwen3-8B --api-key {}",
        "API_KEY={} vllm serve Qwen/Qwen3-8B --hf-token={}",
        "export MY_PASSWORD={}\nTOKEN={}\nvllm serve Qwen/Qwen3-8B --api-key $TOKEN",
        "vllm serve --api-key {}",
        "vllm bench --api-key {}",
        "text-generation-launcher --model-id Qwen/Qwen3-8B --ngrok-authtoken {} --api-key {}",
        "services:\n  v:\n    image: vllm/vllm-openai\n    command: [--model, Qwen/Qwen3-8B, --api-key, {}]\n"
        "    environment: [A_SECRET={}]\n",
        "kind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai\n"
        "    args: [--model=Qwen/Qwen3-8B, --api-key={}]\n"
        "    env: [{name: HF_TOKEN, value: {}}]\n",
    ],
)
@settings(max_examples=20, deadline=None)
@given(secret=st.from_regex(r"[A-Za-z0-9]{12,40}", fullmatch=True))
def test_no_secret_is_repeated(text: str, secret: str) -> None:
    """Findings, the inventory and refusals do not contain the secret."""
    try:
        answer = str(migrate(text.replace("{}", f"s{secret}")))
    except Refusal as refusal:
        answer = str(refusal)
    assert f"s{secret}" not in answer
