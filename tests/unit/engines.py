"""Engines to start from: a Llama in fp8 on one H100, and a helper that plans an LLM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.planning.plan import Plan
from deploy.reports.engines import command_in_lines
from deploy.slices.host import EngineSlice
from deploy.spec import LLM, Calibration, Checkpoint, EngineTrust, KVCache, Machine, Replay, Weights
from tests.unit import samples

CALIBRATION = Calibration(directory="calibration/cnn_dailymail")
AROUND = replace(samples.AROUND, calibrations={CALIBRATION.directory: "c0ffee00c0ffee00"})
TRUST = EngineTrust(key="~/.ssh/enginehouse")
ELSEWHERE = Weights.hub("example/beside", "b" * 40)

PLAIN = replace(
    samples.LLAMA,
    path="engine",
    replay=Replay(prompts="replay/prompts.jsonl", answers="replay/answers.jsonl"),
    max_batch_size=16,
)
FP8 = replace(PLAIN, precision="fp8", kv_cache=KVCache(dtype="fp8"), calibration=CALIBRATION)

SMALL = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=1_235_814_400,
    layers=16,
    hidden=2048,
    heads=32,
    kv_heads=8,
    head_dim=64,
    intermediate=8192,
    vocabulary=128_256,
    positions=131_072,
)
MIXTRAL = Checkpoint(
    architecture="MixtralForCausalLM",
    parameters=46_702_792_704,
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=14_336,
    vocabulary=32_000,
    positions=32_768,
    experts=8,
    active_experts=2,
)


def engine_plan(model: LLM, *, gpu: str = "h100-80", gpus: int = 1, around: Any = AROUND, **data: Any) -> Plan:
    """The plan of one host with one server and only this LLM, on all its GPUs."""
    data = {"engine_trust": TRUST, "machine": Machine(os="ubuntu-24.04", gpu=gpu, gpus=gpus)} | data
    return samples.plan(**samples.main(model, gpus=tuple(range(gpus))), around=around, **data)


def engine(model: LLM, **changes: Any) -> EngineSlice:
    """The engine planned for an LLM."""
    return engine_plan(model, **changes).engines[0]


def commands(model: LLM, **changes: Any) -> str:
    """Every command of every engine of an LLM, one flag a line, the fingerprint masked."""
    engines = engine_plan(model, **changes).engines
    return "".join(
        f"{step.stage}\n{command_in_lines(step)}\n".replace(engine.fingerprint, "FINGERPRINT")
        for engine in engines
        for step in engine.steps
    )


def refusal(model: LLM, **changes: Any) -> str:
    """The printed text of every refusal of an LLM."""
    changes = {"engine_trust": TRUST} | changes
    refusals = samples.refusals(around=AROUND, **samples.main(model), **changes)
    return "\n\n".join(str(problem) for problem in refusals)
