"""Refusals of the build before it uses the GPU: flags that the image lacks, a full disk or GPU, another SM."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from host.build import flags
from roles._shipping.texts import HERE
from tests.roles.engines.building import Host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host for all tests of the file, because a refusal leaves no files behind."""
    return Host.made(tmp_path_factory.mktemp("refusing"))


def cause(host: Host, **changes: object) -> list[str]:
    """The cause, line by line, of a build that was refused at its start."""
    (host.here / "calls").write_text("")
    assert host.build(**changes).returncode == 1
    assert "--checkpoint_dir" not in host.calls() and "--model_dir" not in host.calls()
    return str(host.why()["cause"]).splitlines()


def steps(host: Host, *flags: str) -> list[object]:
    return [host.settings()["steps"][0], host.step(*flags)]


def test_a_flag_the_image_lacks_is_refused_with_the_nearest(host: Host) -> None:
    assert cause(host, steps=steps(host, "--max_batchsize", "32")) == [
        "trtllm-build: the image does not accept `--max_batchsize 32`",
        "  catalog  row 1.2 (near-exact)",
        "  image    knows 71 flags, and not --max_batchsize; the nearest is --max_batch_size",
    ]


def test_a_prefix_that_argparse_would_accept_is_refused(host: Host) -> None:
    assert cause(host, steps=steps(host, "--use_fp8", "enable"))[2] == ("  image    knows 71 flags, and not --use_fp8")


def test_a_choice_the_image_lacks_is_refused_with_the_choices(host: Host) -> None:
    assert cause(host, steps=steps(host, "--gpt_attention_plugin", "fp8"))[2] == (
        "  image    --gpt_attention_plugin takes auto, float16, float32, bfloat16, int32, disable, and not fp8"
    )


def test_a_value_for_a_switch_is_refused(host: Host) -> None:
    assert cause(host, steps=steps(host, "--strip_plan", "enable"))[2] == (
        "  image    --strip_plan is a switch and takes no value"
    )


def test_all_flags_are_refused_at_once(host: Host) -> None:
    lines = cause(host, steps=steps(host, "--tp_size", "2", "--max_output_len", "9"))
    assert [line for line in lines if line[0] != " "] == [
        "trtllm-build: the image does not accept `--tp_size 2`",
        "trtllm-build: the image does not accept `--max_output_len 9`",
    ]


def test_flags_of_the_scripts_are_read_too(host: Host) -> None:
    convert = host.settings()["steps"][0]
    convert = convert | {"argv": [*convert["argv"], "--dtype", "float8"]}
    assert cause(host, steps=[convert, host.step()])[2] == (
        "  image    --dtype takes auto, float16, bfloat16, float32, and not float8"
    )


def test_the_commands_of_a_shipped_inventory_are_taken(host: Host) -> None:
    argv = [sys.executable, "-m", "deploy", "plan", "inventories/h100_engine.py", "--json"]
    planned = json.loads(subprocess.run(argv, check=True, capture_output=True, cwd=HERE).stdout)
    for line in planned["engines"][0]["commands"]:
        words = shlex.split(line)
        assert flags.problems(words, host.help_of(*flags.program_of(words)), "") == []


def test_a_script_the_image_lacks_is_named(host: Host) -> None:
    missing = {"stage": "convert", "argv": ["python3", "/app/examples/llama/convert_checkpoint.py", "--model_dir", "x"]}
    assert cause(host, steps=[missing])[0].startswith("`python3 /app/examples/llama/convert_checkpoint.py --help` in")


def test_a_disk_without_room_is_refused(host: Host) -> None:
    message = cause(host, scratch_mib=10**9, size_mib=2)[0]
    assert message.startswith("the build needs 1,000,000,002 MiB of disk and ")


def test_a_full_gpu_is_reported_with_its_processes(tmp_path: Path) -> None:
    host = Host.made(tmp_path)
    host.gpus(free_mib=500)
    host.program("systemctl", "#!/bin/bash\necho active\n")
    (host.here / "apps").write_text("GPU-1, 999999999, 79000, tritonserver\n")
    assert cause(host, servers=["main"]) == [
        "the build needs 1,000 MiB free on each of its GPUs",
        "  found   GPU 0, NVIDIA H100 80GB HBM3: 500 MiB free",
        "  used    by tritonserver (process 999999999), 79000 MiB",
        "  serves  triton@main.service, on the GPUs this build was given",
    ]
    assert host.why()["remedy"] == (
        "a build never waits for memory: stop main (systemctl stop triton@main), or build on another host "
        "(build.py, a farm host)"
    )


def test_a_server_that_leaves_enough_memory_does_not_block_a_build(tmp_path: Path) -> None:
    host = Host.made(tmp_path)
    host.program("systemctl", "#!/bin/bash\necho active\n")
    assert host.build(servers=["main"]).returncode == 0


def test_a_gpu_of_another_sm_is_refused(host: Host) -> None:
    assert cause(host, fields={"sm": "89"}) == [
        "GPU 0 is a NVIDIA H100 80GB HBM3 of SM 90, and the engine is planned for SM 89"
    ]


def test_a_gpu_the_host_has_not_is_refused(host: Host) -> None:
    assert cause(host, devices=["nvidia.com/gpu=3"]) == ["nvidia.com/gpu=3 is not on this host: nvidia-smi lists 0"]


def test_a_mig_instance_has_the_sm_of_its_gpu(host: Host) -> None:
    lines = cause(host, devices=["nvidia.com/gpu=0:1"], fields={"sm": "80"})
    assert lines == ["GPU 0 is a NVIDIA H100 80GB HBM3 of SM 90, and the engine is planned for SM 80"]


def test_a_driver_that_does_not_answer_is_named(tmp_path: Path) -> None:
    host = Host.made(tmp_path)
    host.program(
        "nvidia-smi", "#!/bin/bash\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
    )
    assert cause(host) == [
        "the GPU is unknown: nvidia-smi failed: Failed to initialize NVML: Driver/library version mismatch"
    ]


def test_the_free_memory_of_a_mig_instance_is_not_guessed(tmp_path: Path) -> None:
    host = Host.made(tmp_path)
    done = host.build(devices=["nvidia.com/gpu=0:1"], gpu_mib=10**9)
    assert done.returncode == 0 and "nvidia.com/gpu=0:1 is a MIG instance" in done.stdout
