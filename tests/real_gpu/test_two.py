"""The fifth sitting: a machine with one of several cards, and the two-card LLM started on one card."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.io.inventory import load_plan
from deploy.slices.runtime import RuntimeSlice
from rehearsal import hardware
from rehearsal.places import REPOSITORY, RehearsalRefused
from rehearsal.real_gpu import rates, scene, two_cards, two_hosts
from roles.triton.defaults import Defaults
from roles.triton.llm_files import render as rendered
from tests.real_gpu.test_inventory import SERVICES, planned


@pytest.mark.parametrize(("only", "cards"), [(None, ["nvidia0", "nvidia1"]), (1, ["nvidia1"])])
def test_a_machine_has_all_cards_or_the_chosen_one(tmp_path: Path, only: int | None, cards: list[str]) -> None:
    """nvidiactl and similar nodes belong to every machine."""
    dev, driver = tmp_path / "dev", tmp_path / "driver"
    for path in (driver / "bin/nvidia-smi", driver / "lib64/libcuda.so.1"):
        path.parent.mkdir(parents=True)
        path.touch()
    dev.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (dev / name).touch()
    made = hardware.real_gpus("h100-80", driver, dev, only)
    assert [Path(node).name for node in made.nodes] == [*cards, "nvidiactl", "nvidia-uvm"]


def test_a_card_that_is_not_there_makes_no_machine(tmp_path: Path) -> None:
    with pytest.raises(RehearsalRefused, match="no GPU that a machine could be given"):
        hardware.real_gpus("h100-80", tmp_path, tmp_path, 7)


def test_a_containers_script_starts_it_on_one_of_two_gpus() -> None:
    """Image, flags and cache stay; name, port, kernels and number of GPUs change."""
    server = planned(True, "cards", 2).servers[0]
    assert server.standalone_llm
    text = rendered(server, *server.standalone_llm, Defaults(), 61140, "enginehouse")["llm/run"].decode()
    script = rates.alone(text)
    assert "--tensor-parallel-size 1" in script and "gpu=1" not in script and "8010" not in script
    assert f"--publish 127.0.0.1:{rates.ALONE_PORT}:{rates.ALONE_PORT}" in script and "--name llm-alone" in script
    kept = [line for line in text.splitlines() if "kv-cache-memory-bytes" in line or "docker run" in line]
    assert all(line in script for line in kept) and len(kept) == 2


def test_a_script_that_has_another_form_is_not_started() -> None:
    with pytest.raises(RehearsalRefused, match="has no --name llm-main"):
        rates.alone("#!/bin/bash\n")


@pytest.mark.parametrize("real", [True, False], ids=["real", "dry"])
def test_each_of_two_hosts_has_half_of_the_layers(real: bool) -> None:
    """The second host has no HTTP port and waits for the first."""
    runtimes = [runtime_of(real, name) for name in two_hosts.NAMES]
    groups = [runtime.group for runtime in runtimes if runtime.group]
    layers = 31 if real else 3
    assert [group.ranks[0].layers for group in groups] == [(0, layers // 2), (layers // 2 + 1, layers)]
    assert ["--headless" in runtime.arguments for runtime in runtimes] == [False, True]


def runtime_of(real: bool, name: str) -> RuntimeSlice:
    """Returns the program of a host, in a folder with invented machines."""
    settings = {"real": real, "gpu": "h100-80", "gpus": 2, "changed": False, "layout": "cards", "image_mib": 9000}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        state = Path(folder) / ".rehearsal"
        written = {
            "machines/gpu/machine.json": json.dumps({"address": "10.213.0.20"}),
            "machines/h0/machine.json": json.dumps({"address": "10.213.0.21"}),
            "machines/h1/machine.json": json.dumps({"address": "10.213.0.22"}),
            "services/services.json": SERVICES.to_json(),
            "real-gpu.json": json.dumps(settings),
            "ssh_config": "",
        }
        for path, text in written.items():
            (state / path).parent.mkdir(parents=True, exist_ok=True)
            (state / path).write_text(text)
        (Path(folder) / "rehearsal").symlink_to(REPOSITORY / "rehearsal")
        patched.chdir(folder)
        server = load_plan(str(REPOSITORY / two_hosts.INVENTORY)).for_host(name).servers[0]
    assert server.standalone_llm and scene.NAME not in two_hosts.NAMES
    return server.standalone_llm[1]


@pytest.mark.parametrize(("measured", "within"), [(9500, True), (10_500, True), (10_600, False), (9400, False)])
def test_memory_of_a_gpu_is_judged_by_five_percent_of_its_plan(measured: int, within: bool) -> None:
    assert two_cards.row(1, 10_000, measured)["within"] is within
