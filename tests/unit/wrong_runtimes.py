"""Wrong LLMs beside Triton by the promise that each proves: image, fields, cache, port, gateway.

A table like that of tests.unit.wrong, in a separate file because these are about another program's container.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import LLM, Adapter, Calibration, Gateway, KVCache, LoRA, Parallel, Replay, Server, Weights
from tests.unit.samples import GPT_OSS, LLAMA, MACHINE, RERANKER, main, pinned, sources
from tests.unit.wrong import A_COMMIT, Wrong

VLLM = "vllm/vllm-openai:v0.26.0"
SERVE = "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
MODEL = 'servers["main"].models["llama"]'
GATEWAY = {"gateway": Gateway()}
SUPPORT = Adapter(name="support", task_id=1, weights=Weights.hub("someone/support", A_COMMIT))
ADAPTERS = LoRA(adapters=(SUPPORT, replace(SUPPORT, name="sales", task_id=2)))
EXPERTS = LLM(
    name="mixtral",
    checkpoint="mixtral-8x7b-instruct",
    weights=pinned("mixtral-8x7b-instruct"),
    runtime="vllm",
    image=VLLM,
)
ON_VLLM = replace(LLAMA, replay=None, runtime="vllm", image=VLLM)


def beside(model: Any = ON_VLLM, gpu: str = "h100-80", **changes: Any) -> dict[str, Any]:
    """Data of a host with a reranker in Triton and this LLM beside it, with these changes."""
    return main(RERANKER, replace(model, **changes)) | GATEWAY | {"machine": replace(MACHINE, gpu=gpu)}


def serve(**changes: Any) -> dict[str, Any]:
    """Data of a host whose LLM is served by trtllm-serve beside Triton, with these changes."""
    return beside(**({"runtime": "trtllm-serve", "image": SERVE} | changes))


JUDGED = Replay(prompts="p.jsonl")


def promote(word: str) -> dict[str, Any]:
    """Data of a host with an LLM on vLLM that has a replay, and the typed promotion."""
    return beside(replay=JUDGED) | {"promote": word}


TWO = (
    Server(name="main", models=(ON_VLLM,)),
    Server(name="two", models=(replace(ON_VLLM, name="llama-2"),), http_port=8100, grpc_port=8101, metrics_port=8102),
)

ALL = {
    "an llm beside triton names its image": Wrong(beside(image=""), "runtime-image", f"{MODEL}.image"),
    "an image beside triton has a tag": Wrong(beside(image="vllm/vllm-openai"), "runtime-image", f"{MODEL}.image"),
    "the flags of an image beside triton are known": Wrong(
        beside(image="vllm/vllm-openai:v0.33.0"), "unknown-runtime-release", f"{MODEL}.image"
    ),
    "a model of triton has no image of its own": Wrong(
        beside(runtime="triton", path="pytorch"), "image-of-triton-model", f"{MODEL}.image"
    ),
    "vllm builds no engine": Wrong(beside(path="engine"), "field-of-another-runtime", f"{MODEL}.path"),
    "vllm has no scheduler of tensorrt-llm": Wrong(
        beside(scheduler="max_utilization"), "field-of-another-runtime", f"{MODEL}.scheduler"
    ),
    "nobody calibrates beside triton": Wrong(
        serve(calibration=Calibration(directory="texts")), "field-of-another-runtime", f"{MODEL}.calibration"
    ),
    "vllm makes no awq of 16 bit weights": Wrong(
        beside(precision="int4_awq"), "precision-of-another-runtime", f"{MODEL}.precision"
    ),
    "an fp8 cache of vllm wants ada or hopper": Wrong(
        beside(gpu="a100-80", kv_cache=KVCache(dtype="fp8")), "fp8-cache", f"{MODEL}.kv_cache.dtype"
    ),
    "vllm has no int8 cache": Wrong(
        beside(kv_cache=KVCache(dtype="int8")), "cache-of-another-runtime", f"{MODEL}.kv_cache.dtype"
    ),
    "vllm offloads no blocks here": Wrong(
        beside(kv_cache=KVCache(host_mib=4096)), "cache-of-another-runtime", f"{MODEL}.kv_cache.host_mib"
    ),
    "vllm splits experts among all gpus of a layer": Wrong(
        {
            **main(replace(EXPERTS, parallel=Parallel(expert=2)), gpus=(0, 1, 2, 3)),
            "machine": replace(MACHINE, gpus=4),
            **GATEWAY,
        },
        "field-of-another-runtime",
        'servers["main"].models["mixtral"].parallel.expert',
    ),
    "gpt-oss is read by ids that trtllm-serve does not tell": Wrong(
        beside(replace(GPT_OSS, name="llama", runtime="trtllm-serve", image=SERVE)),
        "answers-without-ids",
        f"{MODEL}.runtime",
    ),
    "trtllm-serve names no adapters": Wrong(serve(lora=ADAPTERS), "field-of-another-runtime", f"{MODEL}.lora"),
    "vllm has ranks of its own": Wrong(
        beside(lora=replace(ADAPTERS, max_rank=48)), "rank-of-another-runtime", f"{MODEL}.lora.max_rank"
    ),
    "an adapter beside triton has a number too": Wrong(
        beside(lora=LoRA(adapters=(replace(SUPPORT, task_id=0),))),
        "unbelievable-number",
        f'{MODEL}.lora.adapters["support"].task_id',
    ),
    "one server has one llm beside triton": Wrong(
        main(ON_VLLM, replace(ON_VLLM, name="second", port=8011)) | GATEWAY, "two-runtimes", 'servers["main"].models'
    ),
    "two servers have two ports beside triton": Wrong(
        {"servers": TWO, "machine": replace(MACHINE, gpus=2)} | GATEWAY,
        "port-twice",
        'servers["two"].models["llama-2"].port',
    ),
    "a port beside triton is an ordinary user's": Wrong(beside(port=80), "unbelievable-number", f"{MODEL}.port"),
    "an llm beside triton and the gateway have two ports": Wrong(beside(port=8080), "port-twice", "gateway.ports"),
    "an llm beside triton on the gateway's port leaves it another one": Wrong(
        beside(port=8080) | {"gateway": None}, "runtime-without-gateway", f"{MODEL}.runtime"
    ),
    "an llm beside triton has a gateway before it": Wrong(
        beside() | {"gateway": None}, "runtime-without-gateway", f"{MODEL}.runtime"
    ),
    "a gateway reaches no llm beside the triton of another host": Wrong(
        beside() | {"gateway": Gateway(others=("h100-02",)), "peer_address": "10.0.0.11"},
        "runtime-of-another-host",
        "gateway.others",
        beside=tuple(sources("h100-02", **(beside() | {"peer_address": "10.0.0.12"}))),
    ),
    "nobody is compared with stored answers beside triton": Wrong(
        beside(replay=Replay(prompts="p.jsonl", answers="a.jsonl")), "answers-without-engine", f"{MODEL}.replay.answers"
    ),
    "a replay beside triton asks something": Wrong(beside(replay=Replay()), "no-prompts", f"{MODEL}.replay.prompts"),
    "a swap compares one llm": Wrong(
        main(
            replace(LLAMA, path="pytorch", replay=JUDGED, kv_cache=KVCache(tokens=8192)),
            replace(ON_VLLM, name="second", replay=JUDGED),
        )
        | GATEWAY,
        "two-replays",
        'servers["main"].models["second"].replay',
    ),
    "a promotion names a model and a program": Wrong(promote("llama"), "malformed-promotion", "promote"),
    "a promotion names a known program": Wrong(promote("llama:sglang"), "malformed-promotion", "promote"),
    "an llm that nobody serves is not promoted": Wrong(promote("lama:trtllm-serve"), "unknown-model", "promote"),
    "an encoder is not promoted": Wrong(promote("bge:vllm"), "unknown-model", "promote"),
    "nobody is promoted to where it is": Wrong(promote("llama:vllm"), "promoted-already", "promote"),
    "nobody is promoted unjudged": Wrong(
        beside() | {"promote": "llama:trtllm-serve"}, "unjudged-promotion", f"{MODEL}.replay"
    ),
    "a promotion to triton has no image": Wrong(promote(f"llama:triton:{SERVE}"), "image-of-triton-model", "promote"),
    "the flags of a promotion's image are known": Wrong(
        promote("llama:trtllm-serve:me/mine:0.1"), "unknown-runtime-release", "promote"
    ),
}
