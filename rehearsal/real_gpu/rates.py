"""Tokens per second of one GPU, of two in one host, and of two hosts: vLLM's own benchmark measures each in turn.

The LLM on one GPU has no deploy: the step starts a copy of the two-GPU container with its image, flags and cache.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gateway import alike
from benchmarks.gateway.alike import Load
from rehearsal import gateway
from rehearsal.gateway import SETTINGS
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu import bench_client, two_hosts, vllm_steps
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, machine, real, tell
from rehearsal.waiting import wait_for

LOADS = (Load("1", 1, 8), Load("16", 16, 64), Load("64", 64, 256))
ALONE_PORT = 8011
ALONE = "/root/alone"
READY_SECONDS = 400
CHANGES: tuple[tuple[str, str], ...] = (
    (r"--name llm-main", "--name llm-alone"),
    (r"--label enginehouse\.llm=main .*$", ""),
    (r"--device nvidia\.com/gpu=1\n", "\n"),
    (r"127\.0\.0\.1:8010:8010", f"127.0.0.1:{ALONE_PORT}:{ALONE_PORT}"),
    (r"--port 8010", f"--port {ALONE_PORT}"),
    (r"--tensor-parallel-size 2", "--tensor-parallel-size 1"),
    (r"--gpu-memory-utilization \S+", "--gpu-memory-utilization 0.10"),
    (r"\.llm$", ".alone"),
)
"""Pattern and replacement for each line of `llm/run` that depends on two GPUs or must differ for a second container."""


def start_alone(results: StepResults) -> None:
    """Starts a second LLM on the first GPU, beside the LLM over both GPUs, while no client asks either."""
    tell(layout="cards")
    host = machine()
    text = host.run("cat /var/lib/enginehouse/servers/main/current/llm/run").stdout
    script = alone(text)
    results["start_line"] = script[script.index("exec docker run") :]
    host.put(ALONE, script, 0o755)
    began = time.monotonic()
    host.run(f"systemd-run --quiet --collect --unit alone bash {ALONE}")
    wait_for(lambda: _answers(host, ALONE_PORT), READY_SECONDS, host)
    results["seconds"] = round(time.monotonic() - began, 1)


def alone(text: str) -> str:
    """Returns the start script of a two-GPU container, changed for one GPU; fails if a change finds no place."""
    release = "release=$(readlink -f /var/lib/enginehouse/servers/main/current)"
    text = re.sub(r"^release=.*$", release, text, count=1, flags=re.MULTILINE)
    for pattern, new in CHANGES:
        text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
        if not count:
            raise RehearsalRefused(f"the start script of the LLM has no {pattern}\n  state   nothing was started")
    return text


def _answers(host: Machine, port: int) -> bool:
    return host.run(f"curl -sf -m 2 -o /dev/null http://127.0.0.1:{port}/health", check=False).returncode == 0


def measure(results: StepResults) -> None:
    """Measures each program under each number of streams, the others idle; keeps figures as they come."""
    tell(layout="cards")
    card_host, leader = machine(), two_hosts.hosts()[0]
    engine = vllm_steps.llm()[1].port
    rows: dict[str, dict[str, dict[str, float]]] = {}
    results["prompt_tokens"], results["answer_tokens"] = alike.PROMPT_TOKENS, alike.ANSWER_TOKENS
    programs: list[tuple[str, Machine, Callable[[], int]]] = [
        ("one GPU", card_host, lambda: ALONE_PORT),
        ("two GPUs of a host", card_host, lambda: engine),
        ("two GPUs of a host, by the gateway", card_host, lambda: gateway_port(card_host)),
        ("two hosts", leader, lambda: engine),
        ("two hosts, by the leader's gateway", leader, lambda: gateway_port(leader)),
    ]
    problems: dict[str, str] = {}
    for number, (name, host, port_of) in enumerate(programs):
        try:
            rows[name] = {}
            _measure(rows[name], host, port_of(), number, lambda: results.update({"rates": rows}))
        except Exception as problem:  # the measurement continues with the other programs
            problems[name] = f"{type(problem).__name__}: {problem}"[:500]
            results["problems"] = problems
    results["passed"] = not problems and all(
        figures["failed"] == 0 for row in rows.values() for figures in row.values()
    )


def _measure(row: dict[str, dict[str, float]], host: Machine, port: int, number: int, keep: Callable[[], None]) -> None:
    """Measures one program by streams; a dry pass only asks for an answer."""
    if not real():
        if not _answers(host, port) and not gateway.has_one(host):
            raise RehearsalRefused(f"nobody answers at port {port} of {host.name}")
        return
    model, _ = vllm_steps.llm()
    weights = CHECKPOINTS / model.weights.repository.rsplit("/", 1)[-1]
    prompts = Prompts(weights / "tokenizer.json", number)
    with (
        tempfile.TemporaryDirectory(prefix="rates-", dir="/dev/shm") as work,
        bench_client.client(gateway.opened(host).key, host) as process,
    ):
        Path(work).chmod(0o755)
        servers = alike.Servers(
            {"": port},
            model.name,
            weights,
            Path(work),
            lambda words: bench_client.ask(process, words),
            lambda: host.run(f"curl -s -m 5 http://127.0.0.1:{port}/metrics", check=False).stdout,
            lambda: prompts.text(alike.PROMPT_TOKENS)[0],
        )
        # The first batch of a program compiles kernels; its figures are not kept.
        servers.figures("", alike.WARM, servers.prompts(alike.WARM))
        for load in LOADS:
            row[load.name] = servers.figures("", load, servers.prompts(load))
            keep()


def gateway_port(host: Machine) -> int:
    """Returns the port of the machine's gateway on its loopback."""
    return int(json.loads(host.run(f"cat {SETTINGS}").stdout)["listen"]["ports"][0])
