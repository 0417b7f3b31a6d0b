"""The cost of the gateway before the deployed vLLM.

vLLM's own benchmark asks the engine, the gateway, and LiteLLM if it travelled, in turn and by the same client process
on the machine's own loopback; then the engine and the gateway beside encoders under load. All get the same requests:
prompts of a file, sampling values, lengths. vLLM's random prompts would differ: its benchmark shortens them by the
server's `/tokenize` if it answers without a key, as the engine's alone does. The engine's own counters say how many
tokens it read, wrote, and took from its cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import gateway
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu.bench_client import (
    ANSWER_TOKENS,
    PROMPT_TOKENS,
    SAMPLING,
    Figures,
    Load,
    Process,
    ask,
    client,
    inside,
    prompts_file,
    words,
)
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.passes import Passes, full_passes
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, TRAVELLED, machine, planned, real
from rehearsal.real_gpu.served import Deployed
from rehearsal.waiting import wait_for

ENGINE, GATEWAY, PEER = "engine", "gateway", "litellm"
ROUNDS = 3
PEER_PORT, PEER_SECONDS = 4010, 90
LOAD_SECONDS = 4.0
"""Seconds of a spell of full passes; spells follow one another until the benchmark has ended."""
COUNTERS = {
    "tokens_read": "vllm:prompt_tokens_total",
    "tokens_written": "vllm:generation_tokens_total",
    "tokens_cached": "vllm:prefix_cache_hits_total",
}
LOADS = (
    Load("1", 1, 8),
    Load("16", 16, 64),
    Load("64", 64, 256),
    Load("64, 20 requests a second", 64, 200, 20.0),
    Load("256", 256, 512),
)
BESIDE_ENCODERS = (Load("1", 1, 4), Load("16", 16, 48), Load("64", 64, 128), Load("256", 256, 256))


@dataclass
class Servers:
    """Servers of one LLM by their names, each with its port, and the benchmark's client process."""

    ports: dict[str, int]
    model: str
    weights: Path
    process: Process
    work: Path

    def rows(self, results: StepResults, loads: Sequence[Load], rounds: int, seed: int) -> dict[str, Any]:
        """Returns the medians of each server under each load, and keeps them as they come. LiteLLM has one round."""
        prompts = Prompts(self.weights / "tokenizer.json", seed)
        rows: dict[str, dict[str, Any]] = {load.name: {} for load in loads}
        self._warmed(prompts)
        for number in range(rounds):
            # Servers take turns at being first, so that a card that warms up favours none.
            names = [*self.ports][number % 2 :] + [*self.ports][: number % 2]
            for load in loads:
                file = prompts_file(self.work, prompts, load.requests)
                for name in names:
                    if number and name == PEER:
                        continue
                    row = rows[load.name].setdefault(name, {"runs": []})
                    row["runs"].append(self._figures(name, load, file))
                    rows[load.name][name] = medians(row["runs"]) | {"runs": row["runs"]}
                    results["streams"] = rows
        return rows

    def _warmed(self, prompts: Prompts) -> None:
        """Asks each server for a batch whose figures are not kept: the first one compiles kernels."""
        for name in self.ports:
            self._figures(name, Load("warm", 64, 64), prompts_file(self.work, prompts, 64))

    def _figures(self, name: str, load: Load, file: Path) -> Figures:
        before = counted(self.ports[ENGINE])
        # Another salt for the engine alone, and the tenant's own by the gateway: no server profits from another's.
        listed = words(self.ports[name], self.model, self.weights, load, file, "alone" if name == ENGINE else "")
        figures = ask(self.process, listed)
        after = counted(self.ports[ENGINE])
        return figures | {counter: after[counter] - before[counter] for counter in COUNTERS}


def cost(results: StepResults) -> None:
    """Measures tokens per second and times to the first token: direct, by the gateway, and by LiteLLM."""
    with deployed_servers(results) as servers, peer(servers):
        rows = servers.rows(results, LOADS, ROUNDS, 11)
    judged(results, rows)


def loaded_cost(results: StepResults) -> None:
    """Measures the same, direct and by the gateway, while both encoders run full passes."""
    server = planned().servers[0]
    encoders = {encoder.kind: encoder.weights.repository.rsplit("/", 1)[-1] for encoder in server.in_triton}
    tokenizers = {kind: CHECKPOINTS / name / "tokenizer.json" for kind, name in encoders.items()}
    deployed = Deployed(server, machine(), machine().address)
    with (
        tempfile.TemporaryDirectory(prefix="cost-") as work,
        full_passes(tokenizers, Path(work), not real()) as passes,
        deployed_servers(results) as servers,
        loaded(deployed, passes) as documents,
    ):
        rows = servers.rows(results, BESIDE_ENCODERS, 1, 12)
    results["encoders_meanwhile"] = {kind: round(statistics.median(rates), 1) for kind, rates in documents.items()}
    judged(results, rows)


def judged(results: StepResults, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Passes if no request failed, and each server of a load had the engine read and write as many tokens."""
    pairs = [
        {(row["runs"][number]["tokens_read"], row["runs"][number]["tokens_written"]) for row in servers.values()}
        for servers in rows.values()
        for number in range(min(len(row["runs"]) for row in servers.values()))
    ]
    results["asked_alike"] = all(len(counts) == 1 for counts in pairs)
    failed = sum(row["failed"] for servers in rows.values() for row in servers.values())
    results["passed"] = not failed and results["asked_alike"]


@contextlib.contextmanager
def deployed_servers(results: StepResults) -> Iterator[Servers]:
    """Yields the deployed engine and its gateway, ready to be asked.

    Raises: RehearsalRefused if vLLM's benchmark did not travel.
    """
    if not any((TRAVELLED / "vllm").glob("vllm")):
        raise RehearsalRefused("vLLM did not travel\n  wanted  the parts of `--vllm`\n  state   nothing was measured")
    server = planned().servers[0]
    assert server.beside
    model, runtime = server.beside
    opened = gateway.opened(machine())
    listen = json.loads(machine().run(f"cat {gateway.SETTINGS}").stdout)["listen"]
    results["prompt_tokens"], results["answer_tokens"], results["sampling"] = PROMPT_TOKENS, ANSWER_TOKENS, SAMPLING
    ports = {ENGINE: runtime.port, GATEWAY: int(listen["ports"][0])}
    weights = CHECKPOINTS / model.weights.repository.rsplit("/", 1)[-1]
    with tempfile.TemporaryDirectory(prefix="cost-", dir="/dev/shm") as work, client(opened.key) as process:
        Path(work).chmod(0o755)
        yield Servers(ports, model.name, weights, process, Path(work))


@contextlib.contextmanager
def peer(servers: Servers) -> Iterator[None]:
    """Runs LiteLLM's proxy before the engine during the block, one process without logs, if its packages travelled."""
    if not any((TRAVELLED / "peer").glob("litellm")):
        yield
        return
    address = f"http://127.0.0.1:{servers.ports[ENGINE]}/v1"
    parameters = {"model": f"openai/{servers.model}", "api_base": address, "api_key": "sk-x"}
    config = servers.work / "litellm.yaml"
    config.write_text(json.dumps({"model_list": [{"model_name": servers.model, "litellm_params": parameters}]}))
    run = "import sys; from litellm import run_server; sys.exit(run_server())"
    options = ["--config", str(config), "--host", "127.0.0.1", "--port", str(PEER_PORT), "--num_workers", "1"]
    variables = {"PYTHONPATH": f"{os.environ['ENGINEHOUSE_PLACE']}/peer", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with inside(["-c", run, *options], variables, subprocess.DEVNULL):
        wait_for(lambda: answers(PEER_PORT), PEER_SECONDS, machine())
        servers.ports[PEER] = PEER_PORT
        yield


def answers(port: int) -> bool:
    """Returns True if a process of the machine answers HTTP there, whatever it answers."""
    return machine().run(f"curl -s -m 2 -o /dev/null http://127.0.0.1:{port}/v1/models", check=False).returncode == 0


def counted(port: int) -> Figures:
    """Returns the engine's counters."""
    page = machine().run(f"curl -s -m 5 http://127.0.0.1:{port}/metrics", check=False).stdout
    return {
        name: sum(map(float, re.findall(rf"^{counter}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)))
        for name, counter in COUNTERS.items()
    }


def medians(rounds: list[Figures]) -> dict[str, Any]:
    """Returns the median of each figure over the rounds."""
    return {name: round(statistics.median(figures[name] for figures in rounds), 3) for name in rounds[0]}


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
