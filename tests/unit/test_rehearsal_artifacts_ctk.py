"""The stand-in nvidia-ctk: its output, and the behaviour of the real one that roles rely on."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from rehearsal.debs import PACKAGES

SCRIPT = PACKAGES / "toolkit/nvidia-container-toolkit-base/files/usr/bin/nvidia-ctk"
GPUS = [["0", "GPU-a", "00000000:01:00.0", "0x233010DE"], ["1", "GPU-b", "00000000:02:00.0", "0x233010DE"]]


@pytest.fixture
def ctk(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_loader("nvidia_ctk", SourceFileLoader("nvidia_ctk", str(SCRIPT)))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "gpus", lambda: GPUS)
    monkeypatch.setattr(module, "STAND_IN_CARD", SCRIPT)
    monkeypatch.setattr(module, "carry_state", lambda devices: None)
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    return module


def run(ctk: ModuleType, *words: str) -> None:
    chosen = ctk.parser().parse_args(words)
    chosen.act(chosen)


def test_the_specification_is_of_schema_0_7_0_and_names_every_gpu_and_all(ctk: ModuleType, tmp_path: Path) -> None:
    run(ctk, "cdi", "generate", "--output", str(tmp_path / "nvidia.yaml"))
    specification = yaml.safe_load((tmp_path / "nvidia.yaml").read_text())
    names = [device["name"] for device in specification["devices"]]
    assert (specification["cdiVersion"], specification["kind"], names) == (
        "0.7.0",
        "nvidia.com/gpu",
        ["0", "1", "GPU-a", "GPU-b", "all"],
    )


def test_a_cut_gpu_is_named_by_its_instances_only(
    ctk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPU 1 is whole; of GPU 0's two instances, the one without a compute instance cannot be used."""
    (tmp_path / "mode").write_text("0 1 1\n1 0 0\n")
    (tmp_path / "instances").write_text("0 1 5 0 1\n0 2 9 4 0\n")
    monkeypatch.setattr(ctk, "MIG", tmp_path)
    monkeypatch.setattr(ctk, "mig_uuids", lambda: ["MIG-a"])
    names = [device["name"] for device in ctk.specification()["devices"]]
    assert names == ["1", "0:0", "GPU-b", "MIG-a", "all"]


def test_every_device_of_the_specification_edits_something(ctk: ModuleType) -> None:
    assert all(device["containerEdits"] for device in ctk.specification()["devices"])


def test_cdi_list_prints_the_names_docker_takes(
    ctk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(ctk, "cdi", "generate", "--output", str(tmp_path / "nvidia.yaml"))
    run(ctk, "cdi", "list", "--spec-dir", str(tmp_path))
    wanted = [f"nvidia.com/gpu={name}" for name in ("0", "1", "GPU-a", "GPU-b", "all")]
    assert capsys.readouterr().out.splitlines() == wanted


def test_runtime_configure_rewrites_the_whole_file_sorted_with_four_spaces(ctk: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text('{"log-driver":"local","data-root":"/d"}')
    run(ctk, "runtime", "configure", "--runtime=docker", "--config", str(tmp_path / "daemon.json"))
    assert (tmp_path / "daemon.json").read_text() == (
        '{\n    "data-root": "/d",\n    "log-driver": "local",\n    "runtimes": {\n        "nvidia": {\n'
        '            "args": [],\n            "path": "nvidia-container-runtime"\n        }\n    }\n}\n'
    )


def test_switching_cdi_on_loses_every_other_feature_as_the_real_one_does(ctk: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text('{"features": {"containerd-snapshotter": false}}')
    run(ctk, "runtime", "configure", "--config", str(tmp_path / "daemon.json"), "--cdi.enabled")
    assert json.loads((tmp_path / "daemon.json").read_text())["features"] == {"cdi": True}


def test_a_setting_changed_in_place_replaces_the_old_one(ctk: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('debug = "a"\nmode = "auto"\n')
    run(ctk, "config", "--config-file", str(tmp_path / "config.toml"), "--in-place", "--set", "mode=cdi")
    assert (tmp_path / "config.toml").read_text() == 'debug = "a"\nmode = "cdi"\n'


def test_a_real_driver_comes_with_every_name_of_its_libraries(
    ctk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries of another version, and glibc's, are left to the image."""
    driver, usual = tmp_path / "nvidia/lib64", tmp_path / "usr"
    for folder in (driver, usual, tmp_path / "nvidia/bin"):
        folder.mkdir(parents=True)
    for name in ("libcuda.so.580.1", "libnvidia-ml.so.580.1", "libother.so.1"):
        (driver / name).touch()
    (driver / "libcuda.so.1").symlink_to("libcuda.so.580.1")
    (usual / "libcuda.so.1").symlink_to(driver / "libcuda.so.1")
    (tmp_path / "nvidia/bin/nvidia-smi").touch()
    (tmp_path / "version").write_text("580.1\n")
    monkeypatch.setattr(ctk, "STAND_IN_CARD", tmp_path / "none")
    monkeypatch.setattr(ctk, "LOADED", tmp_path / "version")
    monkeypatch.setattr(ctk, "LIBRARIES", usual)
    mounts = {mount["containerPath"]: mount["hostPath"] for mount in ctk.specification()["containerEdits"]["mounts"]}
    assert mounts == {
        str(usual / "libcuda.so.1"): str(driver / "libcuda.so.580.1"),
        str(usual / "libcuda.so.580.1"): str(driver / "libcuda.so.580.1"),
        str(usual / "libnvidia-ml.so.580.1"): str(driver / "libnvidia-ml.so.580.1"),
        "/usr/bin/nvidia-smi": str(tmp_path / "nvidia/bin/nvidia-smi"),
    }
