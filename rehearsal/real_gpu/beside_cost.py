"""The cost of the gateway before the deployed vLLM.

vLLM's own benchmark asks the engine, the gateway, and the gateway beside encoders under load, in turn and by the same
client process on the machine's own loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rehearsal import gateway, nspawn
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu.passes import Passes, full_passes
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, OUTER, TORCH, TRAVELLED, machine, planned, real
from rehearsal.real_gpu.served import Deployed

STREAMS, ROUNDS = (1, 16, 64, 256), 2
BESIDE_ENCODERS = (16, 64)
ALONE, LOADED = ("engine", "gateway"), "gateway beside loaded encoders"
PROMPT_TOKENS, ANSWER_TOKENS = 512, 128
SAMPLING = {"--temperature": 0.6, "--top-p": 0.9}
"""Values of the weights' generation_config.json, which the gateway sends for requests without their own. The engine
alone would sample from all tokens, which took 7 % less time for a token of 16 streams (H100, 2026-11-27)."""
REQUESTS_OF_A_STREAM = 4
LOAD_SECONDS = 4.0
"""Seconds of a spell of full passes; spells follow one another until the benchmark has ended."""
FIGURES = {
    "requests_per_second": "request_throughput",
    "tokens_per_second": "output_throughput",
    "first_token_ms_p50": "median_ttft_ms",
    "first_token_ms_p99": "p99_ttft_ms",
    "token_ms_p50": "median_tpot_ms",
    "failed": "failed",
}
Process = subprocess.Popen[str]


def cost(results: StepResults) -> None:
    """Measures tokens per second and times to the first token: direct, by the gateway, and beside loaded encoders."""
    if not any((TRAVELLED / "vllm").glob("vllm")):
        raise RehearsalRefused("vLLM did not travel\n  wanted  the parts of `--vllm`\n  state   nothing was measured")
    server = planned().servers[0]
    assert server.beside
    model, runtime = server.beside
    opened = gateway.opened(machine())
    listen = json.loads(machine().run(f"cat {gateway.SETTINGS}").stdout)["listen"]
    ports = {"engine": runtime.port, "gateway": int(listen["ports"][0])}
    weights = CHECKPOINTS / model.weights.repository.rsplit("/", 1)[-1]
    encoders = {encoder.kind: encoder.weights.repository.rsplit("/", 1)[-1] for encoder in server.in_triton}
    tokenizers = {kind: CHECKPOINTS / name / "tokenizer.json" for kind, name in encoders.items()}
    deployed = Deployed(server, machine(), machine().address)
    results["prompt_tokens"], results["answer_tokens"], results["rounds"] = PROMPT_TOKENS, ANSWER_TOKENS, ROUNDS
    rows: dict[str, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="cost-") as work,
        full_passes(tokenizers, Path(work), not real()) as passes,
        client(opened.key) as process,
    ):
        for streams in STREAMS:
            row = rows.setdefault(str(streams), {})
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ALONE}
            for number in range(ROUNDS):
                for name in ALONE:
                    # No prompt is repeated, so that no request profits from the engine's cache of prefixes.
                    seed = ports[name] + 100_000 * (100 * streams + number)
                    rounds[name].append(ask(process, words(ports[name], model.name, weights, streams, seed)))
                    row[name] = medians(rounds[name])
                    results["streams"] = rows
        with loaded(deployed, passes) as documents:
            for streams in BESIDE_ENCODERS:
                seed = 7 + 100_000 * (100 * streams + ROUNDS)
                figures = ask(process, words(ports["gateway"], model.name, weights, streams, seed))
                rows[str(streams)][LOADED] = medians([figures])
                results["streams"] = rows
    results["encoders_meanwhile"] = {kind: round(statistics.median(rates), 1) for kind, rates in documents.items()}
    results["passed"] = all(figures["failed"] == 0 for row in rows.values() for figures in row.values())


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each figure over the rounds."""
    return {name: round(statistics.median(figures[name] for figures in rounds), 3) for name in FIGURES}


def words(port: int, model: str, weights: Path, streams: int, seed: int, requests: int = 0) -> list[str]:
    """Returns the command line of `vllm bench serve`; 0 requests means a number that fits the streams."""
    requests = requests or (16 if streams == 1 else streams * REQUESTS_OF_A_STREAM)
    values = {
        "--backend": "openai-chat",
        "--endpoint": "/v1/chat/completions",
        "--base-url": f"http://127.0.0.1:{port}",
        "--model": model,
        "--tokenizer": str(weights),
        "--dataset-name": "random",
        "--random-input-len": PROMPT_TOKENS,
        "--random-output-len": ANSWER_TOKENS,
        "--num-prompts": requests,
        "--max-concurrency": streams,
        "--num-warmups": 8,
        "--seed": seed,
        **SAMPLING,
    }
    return ["--ignore-eos", "--disable-tqdm", *(str(word) for pair in values.items() for word in pair)]


def ask(process: Process, listed: list[str]) -> dict[str, float]:
    """Returns the figures of one run of the benchmark."""
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
    leader = nspawn.leader_pid((host or machine()).directory)
    command = ["nsenter", f"--target={leader}", "--net", "chroot", str(OUTER), "env", f"--chdir={place}/control/repo"]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "PYTHONPATH": f"{place}/vllm:{place}/control/repo",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "OPENAI_API_KEY": key,
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, TORCH, "-m", "benchmarks.gateway.engine_client"], env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextlib.contextmanager
def loaded(deployed: Deployed, passes: Passes) -> Iterator[dict[str, list[float]]]:
    """Runs full passes on both encoders during the block; yields documents per second of each interval, by kind."""
    rates: dict[str, list[float]] = {kind: [] for kind in passes.workloads}
    ended = threading.Event()

    def drive() -> None:
        while not ended.is_set():
            for kind, reading in passes.drive(deployed, list(rates), LOAD_SECONDS if real() else 0.5).items():
                rates[kind].append(reading.documents_per_second)

    thread = threading.Thread(target=drive, name="load")
    thread.start()
    try:
        yield rates
    finally:
        ended.set()
        thread.join()
