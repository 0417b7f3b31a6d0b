"""vLLM's own benchmark as a client of a machine's LLM, by a process on the machine's own loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import nspawn
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.scene import OUTER, TORCH, machine

PROMPT_TOKENS, ANSWER_TOKENS = 512, 128
SAMPLING = {"--temperature": 0.6, "--top-p": 0.9}
"""Values of the weights' generation_config.json, which the gateway sends for requests without their own. The engine
alone would sample from all tokens, which took 7 % less time for a token of 16 streams (H100, 2026-11-27)."""
END_SECONDS = 20
FIGURES = {
    "requests_per_second": "request_throughput",
    "tokens_per_second": "output_throughput",
    "first_token_ms_p50": "median_ttft_ms",
    "first_token_ms_p99": "p99_ttft_ms",
    "token_ms_p50": "median_tpot_ms",
    "failed": "failed",
}
Process = subprocess.Popen[str]
Figures = dict[str, float]


@dataclass(frozen=True)
class Load:
    """Requests of some streams, as fast as they are answered, or by the clock at `rate` a second."""

    name: str
    streams: int
    requests: int
    rate: float = 0.0


def prompts_file(folder: Path, prompts: Prompts, count: int) -> Path:
    """Returns the file of new prompts, one a line."""
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": prompts.text(PROMPT_TOKENS)[0]}) + "\n" for _ in range(count)))
    return file


def words(port: int, model: str, weights: Path, load: Load, prompts: Path, salt: str = "") -> list[str]:
    """Returns the command line of `vllm bench serve`: a load of the prompts in a file."""
    values = {
        "--backend": "openai-chat",
        "--endpoint": "/v1/chat/completions",
        "--base-url": f"http://127.0.0.1:{port}",
        "--model": model,
        "--tokenizer": str(weights),
        "--dataset-name": "custom",
        "--dataset-path": str(prompts),
        "--custom-output-len": ANSWER_TOKENS,
        "--num-prompts": load.requests,
        "--max-concurrency": load.streams,
        "--seed": 1,
        **({"--request-rate": load.rate} if load.rate else {}),
        **SAMPLING,
        **({"--extra-body": json.dumps({"cache_salt": salt})} if salt else {}),
    }
    flags = ["--ignore-eos", "--disable-tqdm", "--disable-shuffle", "--skip-chat-template"]
    return [*flags, *(str(word) for pair in values.items() for word in pair)]


def ask(process: Process, listed: list[str]) -> Figures:
    """Returns the figures of a run of the benchmark."""
    assert process.stdin and process.stdout
    print(json.dumps(listed), file=process.stdin, flush=True)
    for line in process.stdout:
        if line.startswith('{"'):
            result: Mapping[str, Any] = json.loads(line)
            return {figure: float(result[name]) for figure, name in FIGURES.items()}
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
