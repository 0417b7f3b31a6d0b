"""The second part of the fifth sitting: two machines with a GPU each serve one LLM with vLLM, each with half of the
layers."""

from __future__ import annotations

import time
from functools import cache

from deploy.slices.host import ModelSlice
from deploy.slices.runtime import RuntimeSlice
from rehearsal import gateway, machines
from rehearsal.gateway import Gateway
from rehearsal.hardware import Hardware, h100, real_gpus
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from rehearsal.pyinfra_run import pyinfra
from rehearsal.real_gpu import deploy_steps
from rehearsal.real_gpu.gateway_streams import Body, all_at_once, stream_of
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import REPORT, given_hardware, planned, prepared, real
from rehearsal.real_gpu.two_cards import SAYS_RANKS, containers
from rehearsal.real_gpu.vllm_steps import COMPLETIONS, SERVES_SECONDS

INVENTORY = "rehearsal/real_gpu/hosts.py"
NAMES = ("h0", "h1")


def up(results: StepResults) -> None:
    """Boots two more machines, each with one GPU of this computer."""
    for number, name in enumerate(NAMES):
        (booted,) = machines.up([name], "13", _card(number), snapshot="bare")
        prepared(booted)
        shown = booted.run("nvidia-smi -L; ls /dev/nvidia[0-9]*", check=False).stdout
        results[name] = {"address": booted.address, "gpus": shown.split("\n") if real() else "stand-in"}
        if real() and shown.count("GPU ") != 1:
            raise RehearsalRefused(f"{name} does not see one GPU: {shown}")


def _card(number: int) -> Hardware:
    """Returns the GPU of this number of this computer, or a stand-in."""
    return real_gpus(given_hardware().gpu, only=number) if real() else h100(1)


def deploy(results: StepResults) -> None:
    """Deploys both machines in one run, which then answer as one model."""
    run = pyinfra(INVENTORY, "deploy.py", "-y", log=REPORT / "hosts-deploy.log", print_steps=False)
    results["seconds"], results["totals"] = round(run.seconds, 1), run.totals
    results["stages"] = {name: round(seconds, 1) for name, seconds in run.stages.items()}
    deploy_steps.require_good(run)
    results["arguments"] = {name: " ".join(_llm(name)[1].arguments) for name in NAMES}
    results["environment"] = _llm(NAMES[0])[1].environment
    _describe(results)


@cache
def _llm(name: str) -> tuple[ModelSlice, RuntimeSlice]:
    """Returns a host's part of the LLM, as planned."""
    part = planned(INVENTORY, name).servers[0].standalone_llm
    assert part, "the plan has no LLM beside Triton"
    return part


def _describe(results: StepResults) -> None:
    """Records the log lines of each rank's start, its memory beside the plan, and answers of both gateways."""
    results["ranks"] = {host.name: says(host, SAYS_RANKS).splitlines() for host in hosts()}
    results["containers"] = {
        host.name: containers(host, "llm-main", _llm(host.name)[0].memory.total_mib) for host in hosts()
    }
    bodies = [completion(32)] * 8
    answers = {host.name: all_at_once(gateway.opened(host), COMPLETIONS, bodies) for host in hosts()}
    results["answers"] = {
        name: {"whole": sum(answer.is_whole and answer.tokens == 32 for answer in listed), "asked": len(listed)}
        for name, listed in answers.items()
    }
    results["one"] = answers["h0"][0].to_json()
    troubles = [answer.trouble for listed in answers.values() for answer in listed if answer.trouble]
    results["troubles"] = troubles
    results["passed"] = not troubles and all(row["whole"] == row["asked"] for row in results["answers"].values())


def deploy_again(results: StepResults) -> None:
    """Checks that a second run changes nothing on either host and restarts no rank."""
    before = starts()
    run = pyinfra(INVENTORY, "deploy.py", "-y", log=REPORT / "hosts-again.log", print_steps=False)
    results["seconds"], results["totals"], results["silent"] = round(run.seconds, 1), run.totals, run.is_silent
    deploy_steps.require_good(run)
    results["restarted"] = starts() != before
    results["passed"] = run.is_silent and not results["restarted"]


def kill(results: StepResults) -> None:
    """Kills the second host's rank: both parts end, rejoin without help, and a request waits for them."""
    leader, follower = hosts()
    before, began = starts(), time.monotonic()
    follower.run("docker kill llm-main")
    waiting = stream_of(gateway.opened(leader), COMPLETIONS, completion(4), within_seconds=SERVES_SECONDS)
    results["asked_after_the_kill"] = waiting.to_json()
    results["seconds_until_token"] = round(time.monotonic() - began, 1)
    _wait_for_tokens(gateway.opened(leader))
    results["seconds_until_ready"] = round(time.monotonic() - began, 1)
    results["started_anew"] = [new != old for new, old in zip(starts(), before, strict=True)]
    results["said"] = {
        host.name: says(host, "journalctl -u llm@main -o cat | grep -E 'lost|ended with|hosts are there' | tail -n 4")
        for host in (leader, follower)
    }
    _describe(results)
    results["passed"] = results["passed"] and all(results["started_anew"])


def _wait_for_tokens(opened: Gateway) -> None:
    end = time.monotonic() + SERVES_SECONDS
    while not (answer := stream_of(opened, COMPLETIONS, completion(4))).is_whole:
        if time.monotonic() > end:
            raise RehearsalRefused(f"no token after {SERVES_SECONDS} s\n  said    {answer.trouble}")
        time.sleep(0.5)


def hosts() -> tuple[Machine, Machine]:
    """Returns the leader and the follower."""
    leader, follower = (machines.named(name) for name in NAMES)
    return leader, follower


def starts() -> list[str]:
    """Returns the invocation of the LLM's unit on each host, which changes at every start."""
    return [says(host, "systemctl show -P InvocationID llm@main.service") for host in hosts()]


def completion(tokens: int) -> Body:
    """Returns a completion of exactly this many tokens."""
    return {"model": "llama-3.1-8b", "prompt": "The boiler of an engine", "max_tokens": tokens, "ignore_eos": True}


def says(host: Machine, command: str) -> str:
    """Returns the output of a command on a machine."""
    return host.run(command, check=False).stdout.strip()
