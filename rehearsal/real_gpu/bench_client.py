"""vLLM's own benchmark as a client of a machine's LLM, by a process on the machine's own loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal import nspawn
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu.scene import OUTER, TORCH, machine

END_SECONDS = 20
Process = subprocess.Popen[str]


def ask(process: Process, listed: list[str]) -> Mapping[str, Any]:
    """Returns the result of a run of the benchmark."""
    assert process.stdin and process.stdout
    print(json.dumps(listed), file=process.stdin, flush=True)
    for line in process.stdout:
        if line.startswith('{"'):
            result: Mapping[str, Any] = json.loads(line)
            return result
    raise RehearsalRefused(f"the benchmark's client has ended with {process.wait()}")


@contextlib.contextmanager
def client(key: str, host: Machine | None = None) -> Iterator[Process]:
    """Yields a process with vLLM's benchmark on the machine's network, whose loopback has engine and gateway."""
    place = os.environ["ENGINEHOUSE_PLACE"]
    variables = {"PYTHONPATH": f"{place}/vllm:{place}/control/repo", "OPENAI_API_KEY": key}
    with inside(["-m", "benchmarks.gateway.engine_client"], variables, subprocess.PIPE, host) as process:
        yield process


@contextlib.contextmanager
def inside(words: list[str], variables: dict[str, str], pipe: int, host: Machine | None = None) -> Iterator[Process]:
    """Yields a process of the Python that has torch, on the network of a machine; it ends with the block."""
    place = os.environ["ENGINEHOUSE_PLACE"]
    leader = nspawn.leader_pid((host or machine()).directory)
    command = ["nsenter", f"--target={leader}", "--net", "chroot", str(OUTER), "env", f"--chdir={place}/control/repo"]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        **variables,
    }
    with subprocess.Popen([*command, TORCH, *words], env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
