"""LLM settings that validation accepts, or accepts with a warning; tests.unit.wrong_llm has the refused ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.spec import (
    Adapter,
    Calibration,
    Draft,
    Eagle,
    Engine,
    EngineStore,
    EngineTrust,
    KVCache,
    Lookahead,
    LoRA,
    Machine,
    Medusa,
    Parallel,
    ReDrafter,
    Replay,
    Server,
    one_per_gpu,
)
from deploy.validation.speculation import tree_of
from tests.unit.samples import LLAMA, MACHINE, ONE_B, OWN, pinned, plan, refusals, sources
from tests.unit.wrong_llm import HEAD, MIXTRAL, TEXTS, TRUST, adapters, engine, llama, served

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1aWxkIGZhcm0ga2V5IGZvciB0ZXN0cyBvbmx5 build farm"
FINE = {
    "an fp8 engine with an fp8 cache": engine(precision="fp8", calibration=TEXTS, kv_cache=KVCache(dtype="fp8")),
    "an fp8 cache in pages under fp8 weights": engine(
        precision="fp8", calibration=TEXTS, kv_cache=KVCache(dtype="fp8", reuse=True), chunked_prefill=True
    ),
    "AWQ on an L40S": engine("l40s-48", precision="int4_awq", calibration=TEXTS),
    "weight-only needs no texts": engine(precision="int8_wo"),
    "a GPTQ checkpoint as it is": engine(checkpoint=replace(ONE_B, quantisation="gptq"), weights=OWN),
    "fp8 weights as published on the PyTorch path": llama(checkpoint=replace(ONE_B, quantisation="fp8"), weights=OWN),
    "a finished checkpoint on 24.12": engine(engine=Engine(checkpoint="trtllm")) | {"release": "24.12"},
    "an engine of two stages": engine(gpus=2, parallel=Parallel(pipeline=2)),
    "experts dealt out": served(replace(MIXTRAL, parallel=Parallel(expert=4)), gpus=4),
    "fewer key/value heads than GPUs": llama(gpus=8, checkpoint=replace(ONE_B, heads=32, kv_heads=4), weights=OWN),
    "a draft model on one GPU": engine(speculative=Draft(checkpoint=ONE_B, weights=HEAD)),
    "a draft model on PyTorch": llama(gpus=4, speculative=Draft(checkpoint=ONE_B, weights=HEAD)),
    "EAGLE-3 on PyTorch": llama(speculative=Eagle(weights=HEAD, tokens=3)),
    "Medusa with a tree": engine(speculative=Medusa(weights=HEAD, choices="[[0], [0, 0], [1]]")),
    "Medusa with a named tree": engine(speculative=Medusa(weights=HEAD, choices="mc_sim_7b_63")),
    "EAGLE engines": engine(speculative=Eagle(weights=HEAD)),
    "lookahead": engine(speculative=Lookahead()),
    "ReDrafter": engine(speculative=ReDrafter(weights=HEAD)),
    "adapters": adapters(Adapter(name="a", task_id=1, weights=HEAD), Adapter(name="b", task_id=2, weights=HEAD)),
    "adapters of a mixture of experts": served(
        replace(
            MIXTRAL,
            path="engine",
            precision="float16",
            lora=LoRA(adapters=(Adapter(name="a", task_id=1, weights=HEAD),), target_modules=("moe_gate", "attn_q")),
        ),
        gpu="h200-141",
    )
    | TRUST,
    "guided decoding on an engine": engine(guided_decoding=True),
    "guided decoding on the PyTorch path": llama(guided_decoding=True),
    "beams without streaming": engine(decoupled=False, engine=Engine(max_beam_width=4)),
    "further flags": engine(engine=Engine(options={"reduce_fusion": "enable", "tokens_per_block": 64})),
    "a replay with tasks": engine(replay=Replay(prompts="p", tasks="t", minimum_percent=80.0)),
    "tasks that judge alone": engine(replay=Replay(prompts="p", equal_percent=0, tasks="t", minimum_percent=80.0)),
    "a farm host": {"servers": (), "farm": True} | TRUST,
    "an engine store": engine() | {"engine_store": EngineStore.rclone("engines:bucket/path")},
    "another signer": engine() | {"engine_trust": EngineTrust(key="keys/engines", signers=(KEY,))},
    "replicas of one engine": {
        "machine": replace(MACHINE, gpus=8),
        "servers": one_per_gpu(Server(name="gpu", models=(replace(LLAMA, path="engine"),)), 8),
    }
    | TRUST,
}


@pytest.mark.parametrize("data", FINE.values(), ids=[name.replace(" ", "_") for name in FINE])
def test_permitted_llm_settings_are_not_refused(data: dict[str, Any]) -> None:
    """Permitted settings are planned unchanged."""
    assert [str(problem) for problem in refusals(**data)] == []


def test_a_farm_with_larger_cards_does_not_build_for_smaller_ones() -> None:
    """A single H100 would serve a 70B in four bits; but TensorRT's engines are tied to their card."""
    model = replace(
        LLAMA,
        checkpoint="llama-3.1-70b-instruct",
        weights=pinned("llama-3.1-70b-instruct"),
        path="engine",
        precision="int4_awq",
        calibration=Calibration(directory="texts"),
    )
    [serving] = sources("h100-01", **(served(model) | TRUST))
    [farm] = sources("farm-01", machine=Machine(os="ubuntu-24.04", gpu="h200-141"), servers=(), farm=True, **TRUST)
    assert [problem.kind for problem in refusals(serving)] == ["build-beyond-gpu"]
    assert [problem.kind for problem in refusals(serving, farm)] == ["build-beyond-gpu"]


@pytest.mark.parametrize(
    ("machine", "kinds"),
    [
        ({}, []),
        ({"gpu": "l40s-48"}, ["build-beyond-host"]),
        ({"memory_mib": 16_384}, ["build-beyond-host"]),
        ({"mig": ("3g.40gb", "3g.40gb")}, ["build-beyond-host"]),
    ],
)
def test_a_farm_with_the_same_card_and_more_host_memory_builds_what_a_host_cannot(
    machine: dict[str, Any], kinds: list[str]
) -> None:
    model = replace(LLAMA, path="engine", precision="fp8", calibration=Calibration(directory="texts"))
    small = Machine(os="ubuntu-24.04", gpu="h100-80", memory_mib=16_384)
    [serving] = sources("h100-01", **(served(model) | TRUST | {"machine": small}))
    farms = Machine(**({"os": "ubuntu-24.04", "gpu": "h100-80"} | machine))
    [farm] = sources("farm-01", machine=farms, servers=(), farm=True, **TRUST)
    assert [problem.kind for problem in refusals(serving, farm)] == kinds


@pytest.mark.parametrize(("gpu", "remarks"), [("h100-80", 0), ("h100-pcie-80", 1), ("h100-nvl-94", 0), ("l40s-48", 1)])
def test_a_split_over_cards_without_nvlink_is_remarked_on(gpu: str, remarks: int) -> None:
    """Tensor parallelism over PCIe works, but slowly."""
    warnings = [sentence for sentence in plan(**llama(gpu, gpus=2)).warnings if "NVLink" in sentence]
    assert len(warnings) == remarks


@pytest.mark.parametrize(
    ("choices", "paths"),
    [
        ("[[0], [0, 0], [1]]", 3),
        ("[[0, 0]]", None),  # its beginning is missing
        ("[[0], [0]]", None),
        ("[[-1]]", None),
        ("[]", None),
        ("0", None),
        ("__import__('os')", None),
    ],
)
def test_choices_are_read_as_a_tree(choices: str, paths: int | None) -> None:
    """Only literals are read; every path continues another one."""
    tree = tree_of(choices)
    assert (len(tree) if tree else None) == paths
