"""Wrong LLMs by the promise that each proves: precision, parallelism, speculation, adapters, engines and their trust.

tests.unit.wrong has all other mistakes; one table of more than 300 lines is easier to compare than five.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    Medusa,
    Parallel,
    ReDrafter,
    Release,
    Replay,
    Weights,
)
from tests.unit.samples import GPT_OSS, LLAMA, MACHINE, MAIN, ONE_B, OWN, RERANKER, main, pinned
from tests.unit.wrong import A_COMMIT, Wrong

HEAD = Weights.hub("someone/a-head", A_COMMIT)
TEXTS = Calibration(directory="calibration/cnn_dailymail")
TRUST = {"engine_trust": EngineTrust(key="keys/engines")}
MODEL = 'servers["main"].models["llama"]'
MIXTRAL = replace(LLAMA, checkpoint="mixtral-8x7b-instruct", weights=pinned("mixtral-8x7b-instruct"))


def llama(gpu: str = "h100-80", gpus: int = 1, **changes: Any) -> dict[str, Any]:
    """Data of a host whose one server has an 8B on the PyTorch path, over all its GPUs."""
    return served(replace(LLAMA, **changes), gpu=gpu, gpus=gpus)


def served(*models: Any, gpu: str = "h100-80", gpus: int = 1) -> dict[str, Any]:
    """Data of a host with these GPUs, all in one server."""
    return main(*models, gpus=tuple(range(gpus))) | {"machine": replace(MACHINE, gpu=gpu, gpus=gpus)}


def engine(gpu: str = "h100-80", gpus: int = 1, **changes: Any) -> dict[str, Any]:
    """The same 8B as a signed engine."""
    return llama(gpu, gpus, **({"path": "engine"} | changes)) | TRUST


def options(**flags: Any) -> dict[str, Any]:
    """The same engine with flags of trtllm-build."""
    return engine(engine=Engine(options=flags))


def adapters(*chosen: Adapter, **changes: Any) -> dict[str, Any]:
    """Returns the data of an engine with these adapters, or with one example adapter."""
    lora = LoRA(adapters=chosen or (Adapter(name="a", task_id=1, weights=HEAD),), **changes)
    return engine(precision="float16", lora=lora)


PRECISION = {
    "fp8 weights need Ada or Hopper": Wrong(
        engine("a100-80", precision="fp8", calibration=TEXTS), "wrong-sm", f"{MODEL}.precision"
    ),
    "row-wise fp8 is Hopper's": Wrong(
        engine("l40s-48", precision="fp8_rowwise", calibration=TEXTS), "wrong-sm", f"{MODEL}.precision"
    ),
    "W4A8 has no kernels before Ada": Wrong(
        engine("a100-80", precision="w4a8_awq", calibration=TEXTS), "wrong-sm", f"{MODEL}.precision"
    ),
    "NVFP4 is Blackwell's": Wrong(engine(precision="nvfp4", calibration=TEXTS), "wrong-sm", f"{MODEL}.precision"),
    "MXFP4 is served as shipped only": Wrong(engine(precision="mxfp4"), "stored-only", f"{MODEL}.precision"),
    "GPTQ is of two families": Wrong(
        engine(checkpoint=replace(ONE_B, architecture="Phi3ForCausalLM", quantisation="gptq"), weights=OWN),
        "gptq-family",
        f"{MODEL}.checkpoint",
    ),
    "GPTQ needs a GPTQ checkpoint": Wrong(engine(precision="int4_gptq"), "stored-only", f"{MODEL}.precision"),
    "the PyTorch backend quantises nothing": Wrong(
        llama(precision="fp8"), "pytorch-quantises-nothing", f"{MODEL}.precision"
    ),
    "gpt-oss stays as it was published": Wrong(
        main(replace(GPT_OSS, precision="fp8")),
        "pytorch-quantises-nothing",
        'servers["main"].models["gpt-oss-20b"].precision',
    ),
    "an engine is made from plain weights": Wrong(
        engine(checkpoint=replace(ONE_B, quantisation="fp8"), weights=OWN),
        "engine-of-quantised-weights",
        f"{MODEL}.checkpoint",
    ),
    "fp8 is calibrated with local texts": Wrong(engine(precision="fp8"), "no-calibration", f"{MODEL}.calibration"),
    "AWQ is calibrated with local texts": Wrong(
        engine("l40s-48", precision="int4_awq"), "no-calibration", f"{MODEL}.calibration"
    ),
    "an fp8 cache is calibrated too": Wrong(
        engine(kv_cache=KVCache(dtype="fp8")), "no-calibration", f"{MODEL}.calibration"
    ),
    "texts nobody reads are refused": Wrong(llama(calibration=TEXTS), "calibration-unused", f"{MODEL}.calibration"),
    "a calibration has enough samples": Wrong(
        engine(precision="fp8", calibration=replace(TEXTS, samples=4)),
        "unbelievable-number",
        f"{MODEL}.calibration.samples",
    ),
    "the PyTorch backend has no int8 cache": Wrong(
        llama(kv_cache=KVCache(dtype="int8")), "int8-cache-path", f"{MODEL}.kv_cache.dtype"
    ),
    "an int8 cache is not read in pages": Wrong(
        engine(kv_cache=KVCache(dtype="int8", reuse=True), calibration=TEXTS, chunked_prefill=True),
        "cache-without-paged-context",
        f"{MODEL}.kv_cache.dtype",
    ),
    "an fp8 cache in pages wants fp8 weights": Wrong(
        engine(kv_cache=KVCache(dtype="fp8"), calibration=TEXTS, chunked_prefill=True),
        "cache-without-paged-context",
        f"{MODEL}.kv_cache.dtype",
    ),
    "an fp8 cache needs Ada": Wrong(
        llama("a100-80", kv_cache=KVCache(dtype="fp8")), "fp8-cache", f"{MODEL}.kv_cache.dtype"
    ),
}

PARALLEL = {
    "tensor times pipeline is the GPUs": Wrong(
        llama(gpus=4, parallel=Parallel(tensor=2)), "parallel-not-gpus", f"{MODEL}.parallel"
    ),
    "experts do not multiply the GPUs": Wrong(
        served(replace(MIXTRAL, parallel=Parallel(tensor=2, expert=2)), gpus=4),
        "parallel-not-gpus",
        f"{MODEL}.parallel",
    ),
    "a pipeline divides the GPUs": Wrong(
        llama(gpus=4, parallel=Parallel(pipeline=3)), "parallel-not-gpus", f"{MODEL}.parallel"
    ),
    "parallelism is a number of GPUs": Wrong(
        llama(parallel=Parallel(pipeline=0)), "out-of-range", f"{MODEL}.parallel.pipeline"
    ),
    "expert parallelism divides tensor parallelism": Wrong(
        served(replace(MIXTRAL, parallel=Parallel(expert=3)), gpus=4), "uneven-experts", f"{MODEL}.parallel.expert"
    ),
    "a dense model has no experts to split": Wrong(
        llama(gpus=4, parallel=Parallel(expert=2)), "experts-of-dense-model", f"{MODEL}.parallel.expert"
    ),
    "key/value heads are copied evenly or not at all": Wrong(
        served(replace(LLAMA, checkpoint=replace(ONE_B, heads=24, kv_heads=6), weights=OWN), gpus=4),
        "uneven-split",
        'servers["main"].gpus',
    ),
    "a stage has a layer": Wrong(
        served(
            replace(
                LLAMA,
                checkpoint=replace(ONE_B, layers=3, parameters=600_000_000),
                weights=OWN,
                parallel=Parallel(pipeline=4),
            ),
            gpus=4,
        ),
        "pipeline-beyond-layers",
        f"{MODEL}.parallel.pipeline",
    ),
    "stages and speculation do not go together": Wrong(
        llama(gpus=2, parallel=Parallel(pipeline=2), speculative=Eagle(weights=HEAD, tokens=3)),
        "pipeline-with-speculation",
        f"{MODEL}.parallel.pipeline",
    ),
    "an engine of several ranks has a server of its own": Wrong(
        served(RERANKER, replace(LLAMA, path="engine"), gpus=2) | TRUST,
        "encoders-beside-ranks",
        'servers["main"].models',
    ),
    "two engines have two servers": Wrong(
        served(
            replace(LLAMA, path="engine", kv_cache=KVCache(tokens=65_536)),
            replace(LLAMA, name="second", path="engine"),
        )
        | TRUST,
        "two-engines",
        'servers["main"].models',
    ),
    "a draft's engine has one rank": Wrong(
        engine(gpus=2, speculative=Draft(checkpoint=ONE_B, weights=HEAD)), "draft-beside-ranks", f"{MODEL}.speculative"
    ),
}

SPECULATION = {
    "EAGLE engines came with 0.15": Wrong(
        engine(speculative=Eagle(weights=HEAD), engine=Engine(checkpoint="trtllm"))
        | {"release": Release(name="old", derived_from="24.12", trtllm="0.14.0")},
        "speculation-too-early",
        f"{MODEL}.speculative",
    ),
    "Medusa is of the engine path": Wrong(
        llama(speculative=Medusa(weights=HEAD)), "speculation-path", f"{MODEL}.speculative"
    ),
    "lookahead is of the engine path": Wrong(
        llama(speculative=Lookahead()), "speculation-path", f"{MODEL}.speculative"
    ),
    "ReDrafter is of the engine path": Wrong(
        llama(speculative=ReDrafter(weights=HEAD)), "speculation-path", f"{MODEL}.speculative"
    ),
    "EAGLE engines are Llamas": Wrong(
        served(
            replace(
                LLAMA,
                path="engine",
                checkpoint="qwen3-8b",
                weights=pinned("qwen3-8b"),
                speculative=Eagle(weights=HEAD),
            )
        )
        | TRUST,
        "speculation-family",
        f"{MODEL}.speculative",
    ),
    "on PyTorch EAGLE drafts a short chain": Wrong(
        llama(speculative=Eagle(weights=HEAD)), "draft-beyond-a-chain", f"{MODEL}.speculative.tokens"
    ),
    "on PyTorch EAGLE has no tree": Wrong(
        llama(speculative=Eagle(weights=HEAD, tokens=3, choices="[[0], [1]]")),
        "tree-on-pytorch",
        f"{MODEL}.speculative.choices",
    ),
    "choices are a tree": Wrong(
        engine(speculative=Medusa(weights=HEAD, choices="[[0], [1, 0]]")), "no-tree", f"{MODEL}.speculative.choices"
    ),
    "a lookahead has sizes since 0.19": Wrong(
        engine(speculative=Lookahead()) | {"release": "25.04"}, "speculation-too-early", f"{MODEL}.speculative"
    ),
    "a tree has one name": Wrong(
        engine(speculative=Medusa(weights=HEAD, choices="mc_sim_vicuna")), "no-tree", f"{MODEL}.speculative.choices"
    ),
    "a lookahead looks at something": Wrong(
        engine(speculative=Lookahead(window=1, ngram=1)), "drafts-nothing", f"{MODEL}.speculative.ngram"
    ),
    "an iteration confirms all drafts": Wrong(
        engine(speculative=Medusa(weights=HEAD), max_batch_size=256),
        "iteration-below-drafts",
        f"{MODEL}.max_num_tokens",
    ),
    "context logits forbid drafts": Wrong(
        engine(speculative=Lookahead(), engine=Engine(context_logits=True)),
        "context-logits-with-drafts",
        f"{MODEL}.engine.context_logits",
    ),
    "beams forbid drafts": Wrong(
        engine(speculative=Lookahead(), decoupled=False, engine=Engine(max_beam_width=4)),
        "beams-with-drafts",
        f"{MODEL}.engine.max_beam_width",
    ),
    "draft and target speak the same tokens": Wrong(
        llama(speculative=Draft(checkpoint=replace(ONE_B, vocabulary=32_000), weights=HEAD)),
        "draft-vocabulary",
        f"{MODEL}.speculative.checkpoint",
    ),
    "a draft is smaller than its target": Wrong(
        llama(speculative=Draft(checkpoint="llama-3.1-8b-instruct", weights=HEAD)),
        "draft-too-large",
        f"{MODEL}.speculative.checkpoint",
    ),
    "an unknown draft is offered the nearest": Wrong(
        llama(speculative=Draft(checkpoint="llama-3.1-1b", weights=HEAD)),
        "unknown-checkpoint",
        f"{MODEL}.speculative.checkpoint",
    ),
    "an encoder drafts nothing": Wrong(
        llama(speculative=Draft(checkpoint="all-minilm-l6-v2", weights=HEAD)),
        "draft-is-no-llm",
        f"{MODEL}.speculative.checkpoint",
    ),
    "a head is pinned like weights": Wrong(
        llama(speculative=Eagle(weights=Weights.hub("someone/a-head", "main"), tokens=3)),
        "unpinned-weights",
        f"{MODEL}.speculative.weights.revision",
    ),
    "a draft of the engine path can be compiled too": Wrong(
        engine(speculative=Draft(checkpoint=replace(ONE_B, architecture="GptOssForCausalLM"), weights=HEAD)),
        "no-engine",
        f"{MODEL}.speculative.checkpoint",
    ),
    "a draft is stored as its target is": Wrong(
        engine(precision="int8_wo", speculative=Draft(checkpoint=replace(ONE_B, quantisation="fp8"), weights=HEAD)),
        "draft-stored-otherwise",
        f"{MODEL}.speculative.checkpoint",
    ),
    "the engine of a draft has to fit beside its target's": Wrong(
        engine(speculative=Draft(checkpoint=ONE_B, weights=HEAD), kv_cache=KVCache(tokens=350_000)),
        "over-committed",
        'servers["main"].models',
    ),
    "a draft has to fit beside its target": Wrong(
        llama(
            speculative=Draft(checkpoint=replace(ONE_B, parameters=7_900_000_000), weights=HEAD),
            kv_cache=KVCache(tokens=400_000),
            max_batch_size=64,
        ),
        "over-committed",
        'servers["main"].models',
    ),
}

ADAPTERS = {
    "adapters under CUDA graphs answer as others": Wrong(
        llama(lora=LoRA(adapters=(Adapter(name="a", task_id=1, weights=HEAD),))), "lora-path", f"{MODEL}.lora"
    ),
    "an engine with adapters is of their type": Wrong(
        engine(lora=LoRA(adapters=(Adapter(name="a", task_id=1, weights=HEAD),))), "lora-type", f"{MODEL}.precision"
    ),
    "LoRA has adapters": Wrong(
        engine(precision="float16", lora=LoRA(adapters=())), "no-adapters", f"{MODEL}.lora.adapters"
    ),
    "adapters are loaded by themselves since 0.19": Wrong(
        adapters() | {"release": "25.04"}, "lora-too-early", f"{MODEL}.lora"
    ),
    "two adapters have two task ids": Wrong(
        adapters(Adapter(name="a", task_id=1, weights=HEAD), Adapter(name="b", task_id=1, weights=HEAD)),
        "duplicate-adapter-task-id",
        f"{MODEL}.lora.adapters",
    ),
    "two adapters have two names": Wrong(
        adapters(Adapter(name="a", task_id=1, weights=HEAD), Adapter(name="a", task_id=2, weights=HEAD)),
        "duplicate-adapter-name",
        f"{MODEL}.lora.adapters",
    ),
    "task id 0 is no adapter": Wrong(
        adapters(Adapter(name="a", task_id=0, weights=HEAD)),
        "unbelievable-number",
        f'{MODEL}.lora.adapters["a"].task_id',
    ),
    "an adapter's name can name a directory": Wrong(
        adapters(Adapter(name="a/b", task_id=1, weights=HEAD)), "bad-name", f'{MODEL}.lora.adapters["a/b"].name'
    ),
    "modules have TensorRT-LLM's names": Wrong(
        adapters(target_modules=("q_proj",)), "unknown-lora-module", f"{MODEL}.lora.target_modules"
    ),
    "a dense model has no expert modules": Wrong(
        adapters(target_modules=("moe_gate",)), "unknown-lora-module", f"{MODEL}.lora.target_modules"
    ),
    "an adapter changes something": Wrong(
        adapters(target_modules=()), "no-lora-modules", f"{MODEL}.lora.target_modules"
    ),
    "a rank has a limit": Wrong(adapters(max_rank=1024), "unbelievable-number", f"{MODEL}.lora.max_rank"),
}

ENGINES = {
    "an unsigned engine is never loaded": Wrong(llama(path="engine"), "untrusted-engine", "engine_trust"),
    "a signing key is never typed out": Wrong(
        engine() | {"engine_trust": EngineTrust(key="-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl")},
        "literal-secret",
        "engine_trust.key",
    ),
    "engines are signed with a key": Wrong(
        engine() | {"engine_trust": EngineTrust(key="")}, "no-signing-key", "engine_trust.key"
    ),
    "a further signer is a public key": Wrong(
        engine() | {"engine_trust": EngineTrust(key="keys/engines", signers=("keys/farm.pub",))},
        "no-public-key",
        "engine_trust.signers[0]",
    ),
    "a store by rsync is a host and a path": Wrong(
        engine() | {"engine_store": EngineStore.rsync("/srv/engines")}, "no-engine-store", "engine_store"
    ),
    "a store by rclone is a remote, not a URL": Wrong(
        engine() | {"engine_store": EngineStore.rclone("s3://key:secret@bucket/engines")},
        "no-engine-store",
        "engine_store",
    ),
    "a farm host serves nothing": Wrong({"farm": True} | TRUST, "serving-farm", "farm"),
    "one name is one engine": Wrong(
        {
            "machine": replace(MACHINE, gpus=2),
            "servers": (
                replace(MAIN, models=(replace(LLAMA, path="engine"),)),
                replace(
                    MAIN,
                    name="long",
                    gpus=(1,),
                    http_port=8100,
                    grpc_port=8101,
                    metrics_port=8102,
                    models=(replace(LLAMA, path="engine", max_seq_len=131_072, max_num_tokens=131_072),),
                ),
            ),
        }
        | TRUST,
        "two-engines-one-name",
        'servers["long"].models["llama"]',
    ),
    "an engine can be built where it is to be built": Wrong(
        served(
            replace(
                LLAMA,
                checkpoint="llama-3.1-70b-instruct",
                weights=pinned("llama-3.1-70b-instruct"),
                path="engine",
                precision="int4_awq",
                calibration=TEXTS,
            )
        )
        | TRUST,
        "build-beyond-gpu",
        f"{MODEL}.path",
    ),
    "a build wants host memory too": Wrong(
        engine(precision="fp8", calibration=TEXTS) | {"machine": replace(MACHINE, memory_mib=16_384)},
        "build-beyond-host",
        "machine.memory_mib",
    ),
    "options of an engine want an engine": Wrong(
        llama(engine=Engine(max_beam_width=4)), "engine-options-without-engine", f"{MODEL}.engine"
    ),
    "24.12 converts nothing": Wrong(
        engine() | {"release": "24.12"}, "no-convert-scripts", f"{MODEL}.engine.checkpoint"
    ),
    "a prompt is no longer than a sequence": Wrong(
        engine(engine=Engine(max_input_len=16_384)), "input-beyond-sequence", f"{MODEL}.engine.max_input_len"
    ),
    "a stream has one beam": Wrong(
        engine(engine=Engine(max_beam_width=4)), "beams-while-streaming", f"{MODEL}.engine.max_beam_width"
    ),
    "an unknown build flag is offered the nearest": Wrong(
        options(reduce_fuson="enable"), "engine-option", f'{MODEL}.engine.options["reduce_fuson"]'
    ),
    "a removed build flag has a reason": Wrong(
        options(enable_xqa="enable"), "engine-option", f'{MODEL}.engine.options["enable_xqa"]'
    ),
    "a run-time key is not built in": Wrong(
        options(kv_cache_free_gpu_mem_fraction=0.92),
        "engine-option",
        f'{MODEL}.engine.options["kv_cache_free_gpu_mem_fraction"]',
    ),
    "a build flag has choices": Wrong(
        options(gpt_attention_plugin="fp8"), "engine-option", f'{MODEL}.engine.options["gpt_attention_plugin"]'
    ),
    "a switch has no value": Wrong(
        options(fast_build="enable"), "engine-option", f'{MODEL}.engine.options["fast_build"]'
    ),
    "what the plan writes is not an option": Wrong(
        options(max_seq_len=4096), "engine-option", f'{MODEL}.engine.options["max_seq_len"]'
    ),
    "chunks live on paged context": Wrong(
        engine(chunked_prefill=True, engine=Engine(options={"use_paged_context_fmha": "disable"})),
        "paged-context-off",
        f'{MODEL}.engine.options["use_paged_context_fmha"]',
    ),
    "guided decoding came with 0.19": Wrong(
        engine(guided_decoding=True) | {"release": "25.04"}, "no-guided-decoding", f"{MODEL}.guided_decoding"
    ),
    "clients are asked after now and then": Wrong(
        llama(cancellation_check_period_ms=0), "unbelievable-number", f"{MODEL}.cancellation_check_period_ms"
    ),
    "pinned memory is an amount": Wrong(
        llama(kv_cache=KVCache(host_mib=-1)), "unbelievable-number", f"{MODEL}.kv_cache.host_mib"
    ),
    "pinned memory fits the host": Wrong(
        llama(kv_cache=KVCache(host_mib=65_536)) | {"machine": replace(MACHINE, memory_mib=65_536)},
        "host-memory",
        "machine.memory_mib",
    ),
}

REPLAYS = {
    "only an engine has stored answers": Wrong(
        llama(replay=Replay(prompts="p.jsonl", answers="a.jsonl")), "answers-without-engine", f"{MODEL}.replay.answers"
    ),
    "a replay asks something": Wrong(engine(replay=Replay(prompts="")), "no-prompts", f"{MODEL}.replay.prompts"),
    "somebody answers before the engine": Wrong(
        engine(replay=Replay(prompts="p.jsonl")) | {"release": "25.04"}, "no-reference", f"{MODEL}.replay.answers"
    ),
    "a replay's answers fit the sequence": Wrong(
        engine(replay=Replay(prompts="p.jsonl", max_tokens=8192)), "out-of-range", f"{MODEL}.replay.max_tokens"
    ),
    "a share is a percentage": Wrong(
        engine(replay=Replay(prompts="p.jsonl", equal_percent=190.0)),
        "unbelievable-number",
        f"{MODEL}.replay.equal_percent",
    ),
    "something judges a replay": Wrong(
        engine(replay=Replay(prompts="p.jsonl", equal_percent=0)),
        "replay-judges-nothing",
        f"{MODEL}.replay.equal_percent",
    ),
    "tasks have a minimum": Wrong(
        engine(replay=Replay(prompts="p.jsonl", tasks="t.jsonl")),
        "tasks-without-minimum",
        f"{MODEL}.replay.minimum_percent",
    ),
}

ALL: dict[str, Wrong] = {**PRECISION, **PARALLEL, **SPECULATION, **ADAPTERS, **ENGINES, **REPLAYS}
