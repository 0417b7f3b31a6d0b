"""Contents of releases: the shipped inventory's byte for byte, and every configuration in Triton's own schema."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from deploy.inventory.fleet import Fleet
from deploy.io.local_weights import look_around
from deploy.planning.plan import make_plan
from deploy.slices.host import ServerSlice
from roles._shipping.tar import tarred
from roles.triton.defaults import Defaults
from roles.triton.flags import flags
from roles.triton.release import release_of
from roles.triton.render import render
from roles.triton.times import docker_stop_seconds, unit_settings, unit_stop_seconds

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "h100"


@pytest.fixture(scope="module")
def server() -> ServerSlice:
    """The one server of inventories/h100.py."""
    hosts, data = runpy.run_path(str(ROOT / "inventories" / "h100.py"))["h100"]
    fleet = Fleet.of([SimpleNamespace(name=hosts[0], data=data, groups=("h100",))])
    plan = make_plan(fleet, look_around(fleet, ROOT))
    return plan.for_host(plan.hosts[0]).servers[0]


@pytest.fixture(scope="module")
def release(server: ServerSlice) -> dict[str, bytes]:
    return render(server, Defaults())


def config(release: dict[str, bytes], model: str) -> Any:
    """A model's configuration, parsed with Triton's own schema."""
    return text_format.Parse(release[f"models/{model}/config.pbtxt"].decode(), model_config_pb2.ModelConfig())


def test_the_release_of_the_shipped_inventory_is_the_reviewed_one(release: dict[str, bytes]) -> None:
    """GOLDEN=write rewrites it; its diff is the review. Python code is not in it."""
    rendered = {path: content for path, content in release.items() if not path.endswith(".py")}
    for path, content in rendered.items() if os.environ.get("GOLDEN") == "write" else ():
        (GOLDEN / path).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / path).write_bytes(content)
    golden = {str(path.relative_to(GOLDEN)): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    assert rendered == golden


def test_every_configuration_parses_with_tritons_own_schema(server: ServerSlice, release: dict[str, bytes]) -> None:
    assert [config(release, model.name).name for model in server.models] == [model.name for model in server.models]


def test_the_llm_says_decoupled_in_both_places(release: dict[str, bytes]) -> None:
    model = yaml.safe_load(release["models/gpt-oss-20b/1/model.yaml"])
    assert (config(release, "gpt-oss-20b").model_transaction_policy.decoupled, model["triton_config"]["decoupled"]) == (
        True,
        True,
    )


def test_the_llm_is_not_batched_by_triton(release: dict[str, bytes]) -> None:
    assert config(release, "gpt-oss-20b").max_batch_size == 0


def test_every_queue_of_an_encoder_is_bounded(release: dict[str, bytes]) -> None:
    sizes = [config(release, name).dynamic_batching.default_queue_policy.max_queue_size
             for name in ("bge-reranker-large", "nomic-embed-text-v2-moe")]  # fmt: skip
    assert sizes == [1024, 1024]


def test_python_models_are_kind_cpu_and_place_themselves(server: ServerSlice, release: dict[str, bytes]) -> None:
    kinds = {config(release, model.name).instance_group[0].kind for model in server.models}
    assert kinds == {model_config_pb2.ModelInstanceGroup.KIND_CPU}


def test_the_llm_comes_last(release: dict[str, bytes]) -> None:
    assert [model["kind"] for model in json.loads(release["server.json"])["models"]] == ["reranker", "embedder", "llm"]


def test_the_same_slice_is_the_same_release(server: ServerSlice) -> None:
    assert release_of(server, Defaults()) == release_of(server, Defaults())


def test_another_port_is_another_release(server: ServerSlice) -> None:
    moved = replace(server, http_port=9000)
    assert release_of(moved, Defaults()).id != release_of(server, Defaults()).id


def test_a_repaired_image_is_another_release(server: ServerSlice) -> None:
    repaired = replace(server, image=replace(server.image, repairs=()))
    assert release_of(repaired, Defaults()).id != release_of(server, Defaults()).id


def test_the_tar_is_the_same_bytes_whenever_it_is_made(
    release: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gzip header has the packing time, so the archives are made at different times."""
    early = tarred(release)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert tarred(release) == early


@pytest.mark.parametrize("script", ["run", "launch"])
def test_the_scripts_are_bash(release: dict[str, bytes], script: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=release[script], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


def core(server: ServerSlice, version: str) -> set[str]:
    """Names of the flags for a core of this version."""
    return {flag.split("=")[0] for flag in flags(replace(server, image=replace(server.image, triton_core=version)))}


def test_a_core_gets_only_flags_it_knows(server: ServerSlice) -> None:
    younger = {"--metrics-config", "--http-max-input-size", "--allow-client-shm"}
    assert (core(server, "2.51.0") & younger, core(server, "2.71.0") & younger) == (set(), younger)


def test_only_a_traced_server_gets_trace_settings(server: ServerSlice) -> None:
    """Triton traces only requests that the gateway chose (rate=0), with times and without tensors, and sends the
    traces to its own container."""
    traced, release = replace(server, traces=True), render(replace(server, traces=True), Defaults())
    values = {flag.removeprefix("--trace-config=") for flag in flags(traced) if flag.startswith("--trace-config=")}
    url = "opentelemetry,url=http://127.0.0.1:4318/v1/traces"
    assert values == {"mode=opentelemetry", url, "level=TIMESTAMPS", "rate=0"}
    assert b"spans.py" in release["launch"] and b"PORT = 4318\n" in release["spans.py"]
    assert subprocess.run(["bash", "-n"], input=release["launch"], check=False).returncode == 0
    plain = render(server, Defaults())
    assert b"trace-config" not in plain["launch"] and "spans.py" not in plain


def test_each_stop_waits_longer_than_the_one_inside_it(server: ServerSlice) -> None:
    assert (server.stop_seconds, docker_stop_seconds(server), unit_stop_seconds(server, 0)) == (90, 100, 120)


def test_a_unit_that_is_drained_first_has_that_time_too(server: ServerSlice) -> None:
    assert "TimeoutStopSec=180\n" in unit_settings(server, 60)


def test_no_secret_and_no_key_is_in_a_release(release: dict[str, bytes]) -> None:
    assert b"/run/enginehouse/key" in release["launch"]
    words = [word for word in release["launch"].split() if b"restricted" in word]
    assert [word.rpartition(b"=")[2].strip(b'"') for word in words] == [b"@KEY@", b"@KEY@"]
    assert not any(b"PRIVATE" in content or b"hf_" in content for content in release.values())
