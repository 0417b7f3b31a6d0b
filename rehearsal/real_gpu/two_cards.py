"""The first part of the fifth sitting: vLLM splits each layer of the LLM over the two GPUs of one host."""

from __future__ import annotations

from typing import Any

from rehearsal.machine import Machine
from rehearsal.real_gpu import deploy_steps, vllm_steps
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import machine, real, tell

WITHIN_PERCENT = 5
BY_GPU = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"
UUIDS = "nvidia-smi --query-gpu=uuid --format=csv,noheader"
LAYOUT = "cards"
RANKS = r"world_size=[0-9]+ rank=[0-9]+|nccl==[0-9.]+|Using .* all-reduce backends|hosts are there|stand-in .*"
SAYS_RANKS = f"journalctl -u llm@main -o cat | grep -o -E '{RANKS}' | head -n 12"
"""Words of vLLM's own log about its ranks and the way they exchange."""


def deploy(results: StepResults) -> None:
    """Deploys the LLM over both GPUs and waits for answers."""
    deploy_steps.deploy_as(LAYOUT, results, "cards-deploy")
    results["llm_seconds"] = vllm_steps.llm_seconds()
    _, runtime = vllm_steps.llm()
    results["arguments"] = " ".join(runtime.arguments)
    results["program"] = vllm_steps.says(
        "journalctl -u llm@main -o cat | grep -o -m 1 -E 'version [0-9.]+|stand-in .*'"
    )
    results["ranks"] = vllm_steps.says(SAYS_RANKS).splitlines()
    results["containers"] = containers(machine(), "llm-main", planned_mib())


def deploy_again(results: StepResults) -> None:
    """Checks that a second run changes nothing and restarts neither unit."""
    tell(layout=LAYOUT)
    before = vllm_steps.starts()
    deploy_steps.deploy_again(results, "cards-again")
    results["restarted"] = vllm_steps.starts() != before
    results["passed"] = not results["restarted"]


def smoke(results: StepResults) -> None:
    """Runs the smoke tests."""
    tell(layout=LAYOUT)
    deploy_steps.smoke(results, "cards-smoke")


def chat(results: StepResults) -> None:
    """Runs streamed chats through the gateway, as in the fourth sitting; reads memory of each GPU afterwards."""
    tell(layout=LAYOUT)
    vllm_steps.chat(results)
    results["containers"] = rows = containers(machine(), "llm-main", planned_mib())
    results["memory_within"] = all(row["within"] for row in rows)


def planned_mib() -> int:
    """Returns the planned MiB of the LLM on each of its GPUs."""
    return vllm_steps.llm()[0].memory.total_mib


def containers(host: Machine, name: str, planned_each: int) -> list[dict[str, Any]]:
    """Returns MiB that a container's processes hold on each GPU of a host, beside the plan; empty without a card."""
    if not real():
        return []
    uuids = host.run(UUIDS).stdout.split()
    identity = host.run(f"docker inspect --format '{{{{.Id}}}}' {name}").stdout.strip()
    held = dict.fromkeys(uuids, 0)
    for line in host.run(BY_GPU).stdout.splitlines():
        uuid, pid, mib = line.split(", ")
        if mib.isdigit() and identity in host.run(f"cat /proc/{pid}/cgroup", check=False).stdout:
            held[uuid] += int(mib)
    return [row(gpu, planned_each, held[uuid]) for gpu, uuid in enumerate(uuids)]


def row(gpu: int, planned_each: int, measured: int) -> dict[str, Any]:
    """Returns a GPU's plan beside its measurement."""
    off = round(100 * (measured - planned_each) / planned_each, 1)
    return {
        "gpu": gpu,
        "planned_mib": planned_each,
        "measured_mib": measured,
        "off_percent": off,
        "within": abs(off) <= WITHIN_PERCENT,
    }
