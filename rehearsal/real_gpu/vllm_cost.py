"""The cost of the gateway before the deployed vLLM.

vLLM's own benchmark asks the engine, the gateway, and LiteLLM if it travelled, in turn and by the same client process
on the machine's own loopback; then the engine and the gateway beside encoders under load. All get the same requests
(benchmarks/gateway/alike.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gateway import alike
from benchmarks.gateway.alike import ENGINE, GATEWAY, PEER, Servers
from rehearsal import gateway
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu.bench_client import ask, client, inside
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.passes import Passes, full_passes
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, TRAVELLED, machine, planned, real
from rehearsal.real_gpu.served import Deployed
from rehearsal.waiting import wait_for

ROUNDS = 3
PEER_PORT, PEER_SECONDS = 4010, 90
LOAD_SECONDS = 4.0
"""Length of one measurement of full passes in seconds; measurements repeat until the benchmark ends."""


def cost(results: StepResults) -> None:
    """Measures tokens per second and times to the first token: direct, by the gateway, and by LiteLLM."""
    with deployed_servers(results, 11) as servers, peer(servers):
        rows = servers.rows(results, "streams", alike.LOADS, ROUNDS)
    alike.judged(results, rows)


def loaded_cost(results: StepResults) -> None:
    """Measures the figures of `cost`, direct and by the gateway, while both encoders run full passes."""
    server = planned().servers[0]
    encoders = {encoder.kind: encoder.weights.repository.rsplit("/", 1)[-1] for encoder in server.in_triton}
    tokenizers = {kind: CHECKPOINTS / name / "tokenizer.json" for kind, name in encoders.items()}
    deployed = Deployed(server, machine(), machine().address)
    with (
        tempfile.TemporaryDirectory(prefix="cost-") as work,
        full_passes(tokenizers, Path(work), not real()) as passes,
        deployed_servers(results, 12) as servers,
        loaded(deployed, passes) as documents,
    ):
        rows = servers.rows(results, "streams", alike.BESIDE_ENCODERS, 1)
    results["encoders_meanwhile"] = {kind: round(statistics.median(rates), 1) for kind, rates in documents.items()}
    alike.judged(results, rows)


@contextlib.contextmanager
def deployed_servers(results: StepResults, seed: int) -> Iterator[Servers]:
    """Yields the deployed engine and its gateway, ready for requests.

    Raises: RehearsalRefused if vLLM's benchmark did not travel.
    """
    if not any((TRAVELLED / "vllm").glob("vllm")):
        raise RehearsalRefused("vLLM did not travel\n  wanted  the parts of `--vllm`\n  state   nothing was measured")
    server = planned().servers[0]
    assert server.standalone_llm
    model, runtime = server.standalone_llm
    listen = json.loads(machine().run(f"cat {gateway.SETTINGS}").stdout)["listen"]
    results["sampling"] = alike.SAMPLING
    results["prompt_tokens"], results["answer_tokens"] = alike.PROMPT_TOKENS, alike.ANSWER_TOKENS
    ports = {ENGINE: runtime.port, GATEWAY: int(listen["ports"][0])}
    weights = CHECKPOINTS / model.weights.repository.rsplit("/", 1)[-1]
    metrics = f"curl -s -m 5 http://127.0.0.1:{runtime.port}{runtime.metrics_path}"
    prompts = Prompts(weights / "tokenizer.json", seed)
    with (
        tempfile.TemporaryDirectory(prefix="cost-", dir="/dev/shm") as work,
        client(gateway.opened(machine()).key) as process,
    ):
        Path(work).chmod(0o755)
        yield Servers(
            ports,
            model.name,
            weights,
            Path(work),
            lambda words: ask(process, words),
            lambda: machine().run(metrics, check=False).stdout,
            lambda: prompts.text(alike.PROMPT_TOKENS)[0],
        )


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
