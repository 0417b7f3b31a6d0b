"""Inventories of groups: four models too large for one host, or with experts on two hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import LLM, Checkpoint, Fabric, Firewall, Gateway, KVCache, Machine, Parallel, Server, Weights
from tests.unit.samples import Source

INFINIBAND = Fabric(kind="infiniband", gbit=400, interface="ib0")
ETHERNET = Fabric(kind="ethernet", gbit=25, interface="eth1")
VLLM = "vllm/vllm-openai:v0.26.0"
SERVE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29"

LLAMA_405B = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=405_853_388_800,
    layers=126,
    hidden=16_384,
    heads=128,
    kv_heads=8,
    head_dim=128,
    intermediate=53_248,
    vocabulary=128_256,
    positions=131_072,
    quantisation="fp8",
)
DEEPSEEK_R1 = Checkpoint(
    architecture="DeepseekV3ForCausalLM",
    parameters=671_026_419_200,
    layers=61,
    hidden=7168,
    heads=128,
    head_dim=128,
    intermediate=2048,
    dense_intermediate=18_432,
    vocabulary=129_280,
    positions=163_840,
    experts=256,
    active_experts=8,
    quantisation="fp8",
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_rope_head_dim=64,
)
QWEN3_235B = Checkpoint(
    architecture="Qwen3MoeForCausalLM",
    parameters=235_093_634_560,
    layers=94,
    hidden=4096,
    heads=64,
    kv_heads=4,
    head_dim=128,
    intermediate=1536,
    vocabulary=151_936,
    positions=40_960,
    experts=128,
    active_experts=8,
)
MIXTRAL_8X22B = Checkpoint(
    architecture="MixtralForCausalLM",
    parameters=140_630_071_296,
    layers=56,
    hidden=6144,
    heads=48,
    kv_heads=8,
    head_dim=128,
    intermediate=16_384,
    vocabulary=32_768,
    positions=65_536,
    experts=8,
    active_experts=2,
)


def model(name: str, checkpoint: Checkpoint, **changes: Any) -> LLM:
    """A model of vLLM."""
    defaults: dict[str, Any] = {"max_batch_size": 64, "max_seq_len": 8192, "runtime": "vllm", "image": VLLM}
    weights = Weights.hub(f"example/{name}", "c" * 40)
    return LLM(name=name, checkpoint=checkpoint, weights=weights, **(defaults | changes))


def group(llm: LLM, gpu: str, gpus: int, fabric: Fabric | None = INFINIBAND, hosts: int = 2) -> list[Source]:
    """The hosts of a group, which differ only in their addresses."""
    data = {
        "machine": Machine(os="ubuntu-24.04", gpu=gpu, gpus=gpus, nvswitch=True, fabric=fabric),
        "servers": (Server(name="main", models=(llm,), gpus=tuple(range(gpus))),),
        "release": "26.07",
        "gateway": Gateway(),
        "firewall": Firewall(rest="closed"),
    }
    return [Source(f"gpu-0{number}", data | {"peer_address": f"10.0.8.{number}"}) for number in range(1, hosts + 1)]


def named(hosts: int = 2) -> tuple[str, ...]:
    """The names of a group of this many hosts."""
    return tuple(f"gpu-0{number}" for number in range(1, hosts + 1))


GROUPS = {
    "llama_405b_fp8_tp8_pp2": group(
        model("llama-3.1-405b-instruct-fp8", LLAMA_405B, parallel=Parallel(tensor=8, pipeline=2, hosts=named())),
        "h100-80",
        8,
    ),
    "deepseek_r1_2x8_h200": group(
        model(
            "deepseek-r1",
            DEEPSEEK_R1,
            kv_cache=KVCache(dtype="auto"),
            parallel=Parallel(tensor=8, pipeline=2, expert=8, hosts=named()),
        ),
        "h200-141",
        8,
    ),
    "qwen3_235b_2x4_h100": group(
        model("qwen3-235b-a22b", QWEN3_235B, parallel=Parallel(tensor=4, pipeline=2, hosts=named())), "h100-80", 4
    ),
    "mixtral_8x22b_ep4_2x4_h100": group(
        model("mixtral-8x22b", MIXTRAL_8X22B, parallel=Parallel(tensor=4, pipeline=2, expert=4, hosts=named())),
        "h100-80",
        4,
    ),
}
"""Groups by the name of their golden file."""


def changed(sources: list[Source], place: int, **data: Any) -> list[Source]:
    """The same inventory with one host changed."""
    return [
        Source(source.name, source.data | data) if number == place else source for number, source in enumerate(sources)
    ]


def with_model(sources: list[Source], **changes: Any) -> list[Source]:
    """The same inventory with another model on every host."""
    return [
        Source(
            source.name,
            source.data
            | {
                "servers": tuple(
                    replace(server, models=tuple(replace(llm, **changes) for llm in server.models))
                    for server in source.data["servers"]
                )
            },
        )
        for source in sources
    ]
