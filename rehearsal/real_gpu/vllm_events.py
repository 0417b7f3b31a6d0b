"""Steps of the fourth sitting: the LLM is killed, stopped, promoted to FP8 and rolled back; SDKs call it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rehearsal import gateway
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu import deploy_steps
from rehearsal.real_gpu.bench_client import inside
from rehearsal.real_gpu.gateway_streams import Answer, clients, stream_of, under_way
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import TRAVELLED, machine, real, tell
from rehearsal.real_gpu.vllm_steps import (
    COMPLETIONS,
    SERVES_SECONDS,
    completion,
    containers,
    encoder_name,
    llm,
    llm_seconds,
    opened,
    says,
    starts,
    wait_for_tokens,
)

ALL_EQUAL, TASKS_ALONE = 100.0, 0.0
"""Percent of tokens that have to be equal: random weights in FP8 miss the first limit; with the second limit, only
the tasks decide."""
CLIENTS = 3
SWAP_SECONDS = 700
"""Seconds that a client of a swap waits for its answer: longer than two starts of the LLM."""


def kill(results: StepResults) -> None:
    """Kills the LLM's container: it restarts without help, and Triton continues."""
    triton, llm = starts()
    with under_way(opened(), COMPLETIONS, [completion(400)] * 2, 60) as answers:
        began = time.monotonic()
        machine().run("docker kill llm-main")
    results["streams_cut"] = [answer.to_json() for answer in answers]
    results["while_away"] = stream_of(opened(), COMPLETIONS, completion(4)).to_json()
    wait_for_tokens()
    results["seconds_until_ready"] = round(time.monotonic() - began, 1)
    results["llm_seconds"] = llm_seconds()
    after = starts()
    results["triton_went_on"], results["llm_started_anew"] = after[0] == triton, after[1] != llm
    results["passed"] = results["triton_went_on"] and results["llm_started_anew"]


def drain(results: StepResults) -> None:
    """Stops the LLM's unit under load: running requests are answered to the end, later ones wait for its return."""
    most = 600 if real() else 16
    with under_way(opened(), COMPLETIONS, [completion(most)] * 8, 60) as answers:
        began = time.monotonic()
        machine().run("systemctl stop llm@main")
        results["seconds_to_stop"] = round(time.monotonic() - began, 1)
    results["whole"] = sum(answer.is_whole and answer.tokens == most for answer in answers)
    results["asked"], results["tokens_each"] = len(answers), most
    results["troubles"] = [answer.trouble for answer in answers if answer.trouble]
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(stream_of, opened(), COMPLETIONS, completion(4))
        machine().run("systemctl start llm@main", timeout=SERVES_SECONDS)
        results["seconds_to_start"] = round(time.monotonic() - began, 1)
        results["came_while_away"] = late.result().to_json()
    wait_for_tokens()
    results["passed"] = results["whole"] == len(answers) and late.result().is_whole


def refused(results: StepResults) -> None:
    """Tries FP8 weights, which differ from 16 bits: at ALL_EQUAL percent the swap restores the earlier release."""
    tell(changed=True, equal_percent=ALL_EQUAL)
    results["release"] = before = deploy_steps.release()
    try:
        with clients(opened(), COMPLETIONS, completion(16), CLIENTS, SWAP_SECONDS) as answers:
            run = deploy_steps.run_pyinfra("deploy.py", "beside-refused")
            wait_for_tokens()
    finally:
        tell(changed=False)
    results["seconds"], results["code"] = round(run.seconds, 1), run.code
    results["verdict"] = [line.strip() for line in run.output.splitlines() if " equal (" in line][:1]
    results["clients"] = _tally(answers)
    results["passed"] = bool(run.code and results["verdict"]) and deploy_steps.release() == before
    results["passed"] = results["passed"] and not results["clients"]["troubles"]


def swap(results: StepResults) -> None:
    """Swaps the LLM's 16-bit weights for FP8 while clients ask: the answers meet TASKS_ALONE percent."""
    tell(changed=True, equal_percent=TASKS_ALONE)
    with clients(opened(), COMPLETIONS, completion(16), CLIENTS, SWAP_SECONDS) as answers:
        _swapped(results, "deploy.py", "beside-swap")
    results["clients"] = _tally(answers)
    results["passed"] = "--quantization fp8" in results["start_line"] and not results["clients"]["troubles"]


def _tally(answers: list[Answer]) -> dict[str, Any]:
    """Returns the number of answers to clients, of complete ones, the longest, and the faults of the incomplete
    ones."""
    return {
        "asked": len(answers),
        "whole": sum(answer.is_whole for answer in answers),
        "longest_seconds": max((answer.seconds for answer in answers), default=0.0),
        "troubles": [answer.trouble or "no end" for answer in answers if not answer.is_whole][:20],
    }


def rollback(results: StepResults) -> None:
    """Rolls back to the previously served release."""
    _swapped(results, "rollback.py", "beside-rollback")
    tell(changed=False)
    results["containers"] = containers()
    results["passed"] = "--quantization" not in results["start_line"]


def _swapped(results: StepResults, verb: str, name: str) -> None:
    results["from"] = before = deploy_steps.release()
    run = deploy_steps.run_pyinfra(verb, name)
    results["seconds"] = round(run.seconds, 1)
    results["stages"] = {stage: round(seconds, 1) for stage, seconds in run.stages.items()}
    results["to"] = deploy_steps.release()
    deploy_steps.require_good(run)
    if results["to"] == before:
        raise RehearsalRefused(f"{before} serves as before")
    wait_for_tokens()
    results["llm_seconds"], results["containers"] = llm_seconds(), containers()
    results["start_line"] = says(f"cat /var/lib/enginehouse/releases/{results['to']}/llm/run | sed -n '/^exec/,$p'")
    results["swap"] = json.loads(says("tail -n 1 /var/lib/enginehouse/history.jsonl"))


def libraries(results: StepResults) -> None:
    """Runs each call of both libraries (sdk_calls.py), which travelled with vLLM; keeps a line for each."""
    if not (TRAVELLED / "vllm/openai").exists():
        raise RehearsalRefused("vLLM did not travel\n  wanted  the parts of `--vllm`\n  state   nothing was asked")
    listen = json.loads(machine().run(f"cat {gateway.SETTINGS}").stdout)["listen"]
    place = os.environ["ENGINEHOUSE_PLACE"]
    variables = {
        "PYTHONPATH": f"{place}/vllm:{place}/control/repo",
        "OPENAI_API_KEY": gateway.opened(machine()).key,
        "ENGINEHOUSE_URL": f"http://{listen['address']}:{listen['ports'][0]}",
    }
    words = ["-m", "rehearsal.real_gpu.sdk_calls", llm()[0].name, encoder_name("embedder")]
    results["calls"] = []
    with inside(words, variables, subprocess.PIPE) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith('{"client"'):
                results["calls"] = [*results["calls"], json.loads(line)]
    results["passed"] = bool(results["calls"]) and all("answer" in call for call in results["calls"])
