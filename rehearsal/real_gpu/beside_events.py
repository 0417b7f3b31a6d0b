"""The LLM beside Triton is killed, stopped under load, swapped for FP8 and taken back: steps of the fourth sitting."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu import happenings
from rehearsal.real_gpu.beside import (
    COMPLETIONS,
    SERVES_SECONDS,
    completion,
    containers,
    llm_seconds,
    opened,
    says,
    starts,
    wait_for_tokens,
)
from rehearsal.real_gpu.gateway_streams import stream_of, under_way
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import machine, real, tell


def kill(results: StepResults) -> None:
    """The LLM's container is killed: it comes back by itself, and Triton goes on."""
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
    """The LLM's unit is stopped under load: what has begun is answered to its end, what comes then waits for it."""
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


def swap(results: StepResults) -> None:
    """The LLM's weights are held in FP8 instead of 16 bit."""
    tell(changed=True)
    _swapped(results, "deploy.py", "beside-swap")
    results["passed"] = "--quantization fp8" in results["start_line"]


def rollback(results: StepResults) -> None:
    """The release that served before serves again."""
    _swapped(results, "rollback.py", "beside-rollback")
    tell(changed=False)
    results["containers"] = containers()
    results["passed"] = "--quantization" not in results["start_line"]


def _swapped(results: StepResults, verb: str, name: str) -> None:
    results["from"] = before = happenings.release()
    run = happenings.run_pyinfra(verb, name)
    results["seconds"] = round(run.seconds, 1)
    results["stages"] = {stage: round(seconds, 1) for stage, seconds in run.stages.items()}
    results["to"] = happenings.release()
    happenings.require_good(run)
    if results["to"] == before:
        raise RehearsalRefused(f"{before} serves as before")
    wait_for_tokens()
    results["llm_seconds"], results["containers"] = llm_seconds(), containers()
    results["start_line"] = says(f"cat /var/lib/enginehouse/releases/{results['to']}/llm/run | sed -n '/^exec/,$p'")
    results["swap"] = json.loads(says("tail -n 1 /var/lib/enginehouse/history.jsonl"))
