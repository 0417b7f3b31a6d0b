"""Causes in the logs of servers and builds, reported only by the phrase, because only phrases leave a host."""

from __future__ import annotations

import subprocess

import pytest

from deploy.doctor.causes import PATTERN
from tests.unit.doctored import examined, ids
from tests.unit.test_doctor import units

LOGGED = {
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB": "cause-memory",
    "RuntimeError: [TRT] Engine build failed. Out of GPU memory.": "cause-memory",
    "[TensorRT-LLM][ERROR] Assertion failed: Error opening engine file: /engines/rank0.engine": "cause-engine",
    "engine file not found": "cause-engine",
    "CudaException(cuLaunchKernel) failed: invalid device function": "cause-gpu",
    "unsupported SM version": "cause-gpu",
    "CUDA error: no kernel image is available for execution on the device": "cause-gpu",
    "Plugin not found": "cause-version",
    "[TRT] [E] 6: The engine plan file is not compatible with this version of TensorRT, expecting": "cause-version",
    "ModuleNotFoundError: No module named 'transformers.models.nomic'": "cause-module",
    "bash: tritonserver: not found": "cause-image",
    "misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ubz": "cause-nccl",
}
"""Lines that guides and issue threads quote, and the cause that the doctor reports for each."""


@pytest.mark.parametrize("line", LOGGED)
def test_a_failed_server_is_reported_with_the_cause_in_its_log(line: str) -> None:
    """grep keeps only the phrase, as on the host."""
    grep = subprocess.run(["grep", "-aoE", PATTERN], input=line, capture_output=True, text=True, check=True)
    causes = "".join(f"      1 {phrase}\n" for phrase in grep.stdout.splitlines())
    failed = units("ActiveState=active", "ActiveState=failed") | {"causes": causes}
    assert {*ids(examined(failed))} == {"unit-failed", LOGGED[line]}


def test_a_prompt_in_a_log_does_not_leave_the_host() -> None:
    text = "user asked: why is my engine file not found, and here is my secret 4711"
    grep = subprocess.run(["grep", "-aoE", PATTERN], input=text, capture_output=True, text=True, check=True)
    assert grep.stdout == "engine file not found\n"
