"""The inventory of the run on a real GPU plans in both kinds and every layout, and fits the card."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from deploy.io.inventory import load_plan
from deploy.reports.plan import memory_parts
from deploy.slices.host import ServerSlice, Slice
from rehearsal.places import REPOSITORY
from rehearsal.real_gpu import scene
from rehearsal.services import Services

with mock.patch("gevent.monkey.patch_all"):  # would change modules that torch has imported already
    import pyinfra_cli  # noqa: F401

RERANKER, EMBEDDER, LLAMA = "bge-reranker-large", "nomic-embed-text-v2-moe", "llama-3.1-8b-instruct"
KINDS = pytest.mark.parametrize("real", [True, False], ids=["real", "dry"])
LAYOUTS = pytest.mark.parametrize(
    ("layout", "gpus"), [("one", 1), ("one", 2), ("one_per_gpu", 2), ("both", 2), ("beside", 1), ("cards", 2)]
)
SERVICES = Services(
    address="10.213.0.1",
    apt_url="http://apt.rehearsal",
    apt_key_file=Path("keys/apt.asc"),
    registry_host="registry.rehearsal",
    registry_ca_file=Path("keys/ca.pem"),
    ngc_key="nvapi-rehearsal",
    image="registry.rehearsal/nvidia/tritonserver:real-gpu",
    image_digest="sha256:" + "a" * 64,
    hub_url="http://hub.rehearsal",
    hub_tls_url="https://hub.rehearsal",
    hub_token="hf_rehearsal",
    checkpoints=Path("checkpoints"),
    revisions={f"rehearsal/{name}": f"{number:040x}" for number, name in enumerate((RERANKER, EMBEDDER, LLAMA))},
)


@cache
def planned(real: bool, layout: str = "one", gpus: int = 1, changed: bool = False) -> Slice:
    """Returns the plan of the one host, in a folder with an invented state directory."""
    settings = {"real": real, "gpu": "h100-80", "gpus": gpus, "changed": changed, "layout": layout, "image_mib": 9000}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        state = Path(folder) / ".rehearsal"
        written = {
            "machines/gpu/machine.json": json.dumps({"address": "10.213.0.20"}),
            "services/services.json": SERVICES.to_json(),
            "real-gpu.json": json.dumps(settings),
            "ssh_config": "",
        }
        for name, text in written.items():
            (state / name).parent.mkdir(parents=True, exist_ok=True)
            (state / name).write_text(text)
        patched.chdir(folder)
        return load_plan(str(REPOSITORY / scene.INVENTORY)).for_host(scene.NAME)


@KINDS
@LAYOUTS
def test_every_server_fits_each_of_its_gpus(real: bool, layout: str, gpus: int) -> None:
    """The sum is in MiB that CUDA has of an H100."""
    host = planned(real, layout, gpus)
    left = {
        (server.name, gpu): memory_parts(server, gpu, host)["free"] for server in host.servers for gpu in server.gpus
    }
    over_both = [("main", 0), ("main", 1)]
    assert {"one": [("main", 0)], "beside": [("main", 0)], "both": over_both, "cards": over_both}.get(
        layout, [("main-0", 0), ("main-1", 1)]
    ) == list(left)
    assert min(left.values()) > 0


@KINDS
def test_a_driver_of_the_machines_provider_is_never_touched(real: bool) -> None:
    """With a stand-in card, the driver is installed like any other."""
    host = planned(real)
    assert (host.driver.manage, host.mig, host.machine.gpu) == (not real, (), "h100-80")


def test_a_run_on_a_card_serves_models_of_published_sizes() -> None:
    """bge-reranker-large has 0.56, nomic 0.48, Llama 8.03 thousand million parameters."""
    models = {model.name: model for model in planned(True).servers[0].models}
    weights = {name: model.memory.weights_mib for name, model in models.items()}
    assert (
        1000 < weights[RERANKER] < 1200 and 850 < weights[EMBEDDER] < 1200 and 15_000 < weights["llama-3.1-8b"] < 15_700
    )
    assert [models[name].settings.get("device") for name in (RERANKER, EMBEDDER)] != ["cpu", "cpu"]


def test_a_dry_pass_has_small_encoders_on_the_cpu() -> None:
    encoders = [model for model in planned(False).servers[0].models if model.kind != "llm"]
    assert [model.settings["device"] for model in encoders] == ["cpu", "cpu"]
    assert sum(weights.size_mib for weights in planned(False).weights) < 100


@KINDS
def test_the_changed_release_differs_in_the_llm_alone(real: bool) -> None:
    """Half as many sequences; the cache stays equal, so that both fit."""
    unchanged, changed = planned(real), planned(real, changed=True)
    assert replace(changed, servers=unchanged.servers) == unchanged
    before, after = (_llm(host.servers[0]) for host in (unchanged, changed))
    assert before["rest"] == after["rest"]
    assert (before["llm"].memory.kv_cache_mib, before["llm"] == after["llm"]) == (
        after["llm"].memory.kv_cache_mib,
        False,
    )


def _llm(server: ServerSlice) -> dict[str, Any]:
    """Returns the LLM of a server, and the rest of the server."""
    rest = tuple(model for model in server.models if model.kind != "llm")
    (llm,) = (model for model in server.models if model.kind == "llm")
    return {"llm": llm, "rest": replace(server, models=rest)}


@KINDS
def test_the_changed_release_of_the_standalone_llm_has_fp8_weights(real: bool) -> None:
    """The image is the same, with the programs of both containers, behind a gateway."""
    before, after = (planned(real, "beside", changed=changed) for changed in (False, True))
    assert before.gateway and [image.digest for image in before.runtime_images] == [before.image.digest]
    lines = [host.servers[0].models[-1].runtime for host in (before, after)]
    assert [line is not None and "--quantization" in line.arguments for line in lines] == [False, True]
    parts = [host.servers[0].models[-1].memory for host in (before, after)]
    assert (parts[0].weights_mib > parts[1].weights_mib) == real and parts[0].kv_cache_mib == parts[1].kv_cache_mib


def test_servers_of_a_gpu_each_listen_on_ports_of_their_own() -> None:
    host = planned(True, "one_per_gpu", 2)
    ports = [(server.http_port, server.grpc_port, server.metrics_port) for server in host.servers]
    assert len({port for layout_ports in ports for port in layout_ports}) == 6
    assert [server.devices for server in host.servers] == [("nvidia.com/gpu=0",), ("nvidia.com/gpu=1",)]
