"""Every configuration of an engine's models in Triton's own schema, and the content of one; no server needed."""

from __future__ import annotations

import os
import re
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from deploy.inventory.fleet import Fleet
from deploy.io.local_weights import look_around
from deploy.planning.plan import make_plan
from deploy.slices.host import ServerSlice
from deploy.spec import Adapter, LoRA, Weights
from roles.triton.defaults import Defaults
from roles.triton.release import release_of
from roles.triton.render import render
from tests.engine.engines import RELEASES, REVISION, a_draft, a_model, a_server, an_engine

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "engine_repository"
ENGINE, WEIGHTS = (
    Path("/var/lib/enginehouse/engines/llama/0123456789abcdef"),
    Path("/var/lib/enginehouse/weights/llama"),
)
HOST_DIRECTORY = re.compile(r"/var/lib/enginehouse/(?:weights|engines)/[^/\s\"']+/[^/\s\"']+")
MOUNTED = re.compile(r"--mount type=bind,source=([^,]+),")
INVENTORIES = sorted(path.name for path in (ROOT / "inventories").glob("*.py") if path.name != "rehearsal.py")


def configurations(server: ServerSlice) -> dict[str, Any]:
    """Returns every model's configuration, parsed, by its directory's name."""
    return {
        path.split("/")[1]: text_format.Parse(content.decode(), model_config_pb2.ModelConfig())
        for path, content in render(server, Defaults()).items()
        if path.endswith("config.pbtxt")
    }


@cache
def servers(inventory: str) -> tuple[ServerSlice, ...]:
    """Returns all servers of a shipped inventory."""
    variables = runpy.run_path(str(ROOT / "inventories" / inventory))
    groups = {name: value for name, value in variables.items() if isinstance(value, tuple) and len(value) == 2}
    hosts = [
        SimpleNamespace(name=host, data=data | own, groups=(name,))
        for name, (names, data) in groups.items()
        if isinstance(names, list)
        for host, own in (entry if isinstance(entry, tuple) else (entry, {}) for entry in names)
    ]
    fleet = Fleet.of(hosts)
    plan = make_plan(fleet, look_around(fleet, ROOT))
    return tuple(server for host_slice in plan.slices for server in host_slice.servers)


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_every_configuration_of_a_shipped_inventory_parses(inventory: str) -> None:
    for server in servers(inventory):
        assert all(config.name == name for name, config in configurations(server).items())


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_equal_inventories_give_equal_bytes(inventory: str) -> None:
    for server in servers(inventory):
        assert render(server, Defaults()) == render(replace(server), Defaults())


@pytest.mark.parametrize("trtllm", RELEASES)
def test_every_release_gives_six_models_that_parse(trtllm: str) -> None:
    configs = configurations(a_server(a_model(an_engine(ENGINE), WEIGHTS, trtllm), trtllm=trtllm))
    roles = ("_completion", "_postprocessing", "_preprocessing", "_tensorrt_llm", "_tensorrt_llm_bls")
    assert sorted(configs) == ["llama", *(f"llama{role}" for role in roles)]


@pytest.mark.parametrize(("trtllm", "names"), [
    ("0.18.2", {"min_length", "random_seed", "return_kv_cache_reuse_stats"}),
    ("1.0.0", {"min_tokens", "seed", "return_perf_metrics"}),
    ("1.2.1", {"min_tokens", "seed", "return_perf_metrics"}),
])  # fmt: skip
def test_names_that_changed_are_those_of_the_release(trtllm: str, names: set[str]) -> None:
    configs = configurations(a_server(a_model(an_engine(ENGINE), WEIGHTS, trtllm), trtllm=trtllm))
    either = {"min_length", "min_tokens", "random_seed", "seed", "return_kv_cache_reuse_stats", "return_perf_metrics"}
    for model in ("llama", "llama_tensorrt_llm", "llama_tensorrt_llm_bls"):
        assert {tensor.name for tensor in configs[model].input} & either == names


def test_the_release_of_an_engine_is_the_reviewed_one() -> None:
    """GOLDEN=write updates the golden files; review the diff. The golden files contain no Python code."""
    files = render(a_server(a_model(an_engine(ENGINE), WEIGHTS)), Defaults())
    rendered = {path: content for path, content in files.items() if not path.endswith(".py")}
    for path, content in rendered.items() if os.environ.get("GOLDEN") == "write" else ():
        (GOLDEN / path).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / path).write_bytes(content)
    assert rendered == {
        str(path.relative_to(GOLDEN)): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()
    }


def test_the_engine_is_kind_cpu_once_and_its_queue_is_bounded() -> None:
    config = configurations(a_server(a_model(an_engine(ENGINE), WEIGHTS)))["llama_tensorrt_llm"]
    (group,) = config.instance_group
    queue = config.dynamic_batching.default_queue_policy.max_queue_size
    assert (config.backend, group.kind, group.count, queue) == ("tensorrtllm", group.KIND_CPU, 1, 256)


@pytest.mark.parametrize("decoupled", [True, False])
def test_streaming_is_declared_for_the_engine_and_the_bls_model(decoupled: bool) -> None:
    configs = configurations(a_server(a_model(an_engine(ENGINE), WEIGHTS, decoupled=decoupled)))
    decoupled_by_model = {name: configs[f"llama_{name}"].model_transaction_policy.decoupled for name in
            ("tensorrt_llm", "tensorrt_llm_bls", "preprocessing")}  # fmt: skip
    assert decoupled_by_model == {"tensorrt_llm": decoupled, "tensorrt_llm_bls": decoupled, "preprocessing": False}


def test_engines_are_mounted_read_only() -> None:
    run = render(a_server(a_model(an_engine(ENGINE), WEIGHTS)), Defaults())["run"].decode()
    assert f"--mount type=bind,source={ENGINE},target={ENGINE},readonly" in run


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_every_directory_that_a_models_settings_name_is_mounted(inventory: str) -> None:
    """This includes the directories of drafts and EAGLE heads on the PyTorch path, which the LLM reads when it
    loads."""
    for server in servers(inventory):
        files = render(server, Defaults())
        mounted = set(MOUNTED.findall(files["run"].decode()))
        texts = [content.decode() for path, content in files.items() if path.endswith((".pbtxt", ".yaml"))]
        assert {directory for text in texts for directory in HOST_DIRECTORY.findall(text)} <= mounted


def test_several_ranks_are_one_server_each_under_mpirun() -> None:
    server = a_server(a_model(an_engine(ENGINE), WEIGHTS), gpus=(0, 1, 2, 3), mpi_ranks=4)
    launch = render(server, Defaults())["launch"].decode()
    ranks = re.findall(r"-n 1 (?:\S+hidden\S+ )?tritonserver", launch)
    assert (len(ranks), launch.count("--load-model=llama_tensorrt_llm "), "exec mpirun" in launch) == (4, 3, True)


def test_several_ranks_get_shared_memory_for_each() -> None:
    server = a_server(a_model(an_engine(ENGINE), WEIGHTS), gpus=(0, 1, 2, 3), mpi_ranks=4)
    assert b"--shm-size 4096m" in render(server, Defaults())["run"]


def test_one_rank_starts_without_mpi() -> None:
    assert b"mpirun" not in render(a_server(a_model(an_engine(ENGINE), WEIGHTS)), Defaults())["launch"]


def test_engines_side_by_side_get_processes_of_their_own() -> None:
    draft = an_engine(ENGINE.with_name("fedcba9876543210"), "draft")
    alone = render(a_server(a_model(an_engine(ENGINE), WEIGHTS)), Defaults())["launch"]
    beside = render(a_server(a_model(an_engine(ENGINE), WEIGHTS, draft=draft, speculative=a_draft())), Defaults())
    has_orchestrator = [b"TRTLLM_ORCHESTRATOR=1" in launch for launch in (alone, beside["launch"])]
    assert has_orchestrator == [False, True]


def test_adapters_are_brought_into_the_engines_form_at_the_start() -> None:
    lora = LoRA(adapters=(Adapter(name="tone", task_id=7, weights=Weights.hub("example/tone", REVISION)),))
    launch = render(a_server(a_model(an_engine(ENGINE), WEIGHTS, lora=lora)), Defaults())["launch"].decode()
    assert (
        "made /var/cache/enginehouse/lora/llama/7 python3 /app/examples/hf_lora_convert.py"
        f" -i /var/lib/enginehouse/weights/tone/{REVISION} --storage-type float16 -o\n"
    ) in launch


def test_guided_decoding_gets_its_view_of_the_tokenizer_at_the_start() -> None:
    launch = render(a_server(a_model(an_engine(ENGINE), WEIGHTS, guided_decoding=True)), Defaults())["launch"].decode()
    assert (
        "made /var/cache/enginehouse/xgrammar/llama python3 /app/examples/generate_xgrammar_tokenizer_info.py" in launch
    )


def test_another_engine_is_another_release() -> None:
    server = a_server(a_model(an_engine(ENGINE), WEIGHTS))
    other_server = a_server(a_model(an_engine(ENGINE.with_name("f" * 16)), WEIGHTS))
    assert release_of(server, Defaults()).id != release_of(other_server, Defaults()).id
