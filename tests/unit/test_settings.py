"""Settings of the backends: model.yaml of the LLM, parameters of the encoders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.spec import Draft, Eagle, KVCache, Parallel, Weights
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MACHINE, ONE_B, OWN, RERANKER, main, pinned, plan

WEIGHTS = "/var/lib/enginehouse/weights"


def settings(model: object, **data: object) -> dict[str, object]:
    """The settings of the one model of a server."""
    return plan(**(main(model) | data)).for_host("h100-01").servers[0].models[0].settings


def test_gpt_oss_on_hopper_gets_exactly_these_settings() -> None:
    """16-bit cache in tokens, no reuse, no chunked prefill, the default expert backend."""
    assert settings(GPT_OSS) == {
        "model": f"{WEIGHTS}/gpt-oss-20b/6cee5e81ee83917806bbde320786a8fb61efebee",
        "backend": "pytorch",
        "tensor_parallel_size": 1,
        "max_batch_size": 32,
        "max_num_tokens": 8192,
        "max_seq_len": 8192,
        "kv_cache_config": {
            "max_tokens": 262_144,
            "free_gpu_memory_fraction": 0.9,
            "enable_block_reuse": False,
            "dtype": "auto",
        },
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": 32},
        "enable_chunked_prefill": False,
        "trust_remote_code": False,
        "triton_config": {"max_batch_size": 0, "decoupled": True, "cancellation_check_period_ms": 100},
    }


def test_a_chosen_expert_backend_is_written() -> None:
    """CUTLASS is the fallback if the TRITON kernels do not load."""
    assert settings(replace(GPT_OSS, moe_backend="CUTLASS"))["moe_config"] == {"backend": "CUTLASS"}


def test_experts_are_split_over_gpus_and_never_cut() -> None:
    """The TRITON backend has expert parallel only."""
    data = main(GPT_OSS, gpus=(0, 1)) | {"machine": replace(MACHINE, gpus=2)}
    assert plan(**data).for_host("h100-01").servers[0].models[0].settings["moe_expert_parallel_size"] == 2


def test_the_tokens_decide_and_not_the_fraction() -> None:
    """A cache of all remaining memory: 58,512 of 58,512 + 2,048 is 96.6 percent, so 98 are allowed."""
    cache = settings(LLAMA)["kv_cache_config"]
    assert cache == {
        "max_tokens": 468_096,
        "free_gpu_memory_fraction": 0.98,
        "enable_block_reuse": True,
        "dtype": "auto",
    }


def test_reuse_can_be_switched_off() -> None:
    """The cache then stops at 32 full sequences."""
    cache = settings(replace(LLAMA, kv_cache=KVCache(reuse=False)))["kv_cache_config"]
    assert isinstance(cache, dict)
    assert (cache["enable_block_reuse"], cache["max_tokens"]) == (False, 262_144)


def test_a_blackwell_card_may_have_an_fp8_cache() -> None:
    """An fp8 cache holds twice the tokens; for gpt-oss only Hopper is listed as unsupported."""
    model = replace(GPT_OSS, kv_cache=KVCache(tokens=65_536, dtype="fp8"))
    model_slice = (
        plan(**(main(model) | {"machine": replace(MACHINE, gpu="b200-180")})).for_host("h100-01").servers[0].models[0]
    )
    assert model_slice.memory.kv_cache_mib == 1_536


def test_the_embedder_gets_exactly_these_settings() -> None:
    """Every value is a text, as config.pbtxt needs it."""
    assert settings(replace(EMBEDDER, default_task="search_query")) == {
        "model_path": f"{WEIGHTS}/nomic/1066b6599d099fbb93dfcb64f9c37a7c9e503e85",
        "device": "cuda:0",
        "dtype": "fp16",
        "max_tokens": "512",
        "max_batch_tokens": "16384",
        "max_items": "1024",
        "default_task": "search_query",
        "memory_mib": "1628",
        "dimensions": "768",
        "least_dimensions": "256",
    }


def test_8_bit_products_are_written_where_they_are_asked_for() -> None:
    """Other releases are rendered without this setting, so that they keep their names."""
    assert settings(replace(EMBEDDER, products="fp8"))["products"] == "fp8"
    assert "products" not in settings(EMBEDDER)


def test_streams_are_written_where_there_are_several() -> None:
    """A reranker has several by default; one stream is the backend's own default, and a CPU has none."""
    assert settings(RERANKER)["streams"] == "2" and "streams" not in settings(EMBEDDER)
    assert "streams" not in settings(replace(RERANKER, streams=1))
    assert "streams" not in settings(replace(RERANKER, device="cpu", dtype="float32"))


def test_an_encoder_on_the_cpu_has_the_setting_for_it() -> None:
    """An encoder on the CPU has no limit of CUDA memory."""
    written = settings(replace(RERANKER, device="cpu", dtype="float32"))
    assert (written["device"], written["dtype"], written["memory_mib"]) == ("cpu", "fp32", "0")


@pytest.mark.parametrize("model", [EMBEDDER, RERANKER], ids=["embedder", "reranker"])
def test_the_encoders_know_every_parameter(model: object) -> None:
    """Names and values pass the reader the served model itself uses."""
    from encoders.settings import Settings

    assert Settings.of(settings(model)).max_tokens == 512


def test_a_split_over_stages_is_written() -> None:
    """Four GPUs form two stages of two GPUs each."""
    data = main(replace(LLAMA, parallel=Parallel(pipeline=2)), gpus=(0, 1, 2, 3))
    written = plan(**(data | {"machine": replace(MACHINE, gpus=4)})).for_host("h100-01").servers[0].models[0].settings
    assert (written["tensor_parallel_size"], written["pipeline_parallel_size"]) == (2, 2)


def test_an_eagle_head_drafts_from_a_directory_of_its_own() -> None:
    """The keys are EagleDecodingConfig's; a dense model beside it keeps every other default."""
    head = Weights.hub("someone/a-head", "0123456789abcdef0123456789abcdef01234567")
    assert settings(replace(LLAMA, speculative=Eagle(weights=head, tokens=3)))["speculative_config"] == {
        "decoding_type": "Eagle",
        "max_draft_len": 3,
        "speculative_model_dir": f"{WEIGHTS}/llama-eagle/0123456789abcdef0123456789abcdef01234567",
    }


def test_a_scheduler_is_written_where_it_is_not_the_default() -> None:
    """The scheduler is spelt as in TensorRT-LLM's enumeration."""
    assert settings(replace(LLAMA, scheduler="max_utilization"))["scheduler_config"] == {
        "capacity_scheduler_policy": "MAX_UTILIZATION"
    }


def test_blocks_that_fall_out_of_the_gpu_go_to_the_host() -> None:
    """The setting has the 4,096 MiB in bytes."""
    cache = settings(replace(LLAMA, kv_cache=KVCache(host_mib=4096)))["kv_cache_config"]
    assert isinstance(cache, dict)
    assert cache["host_cache_size"] == 4_294_967_296


@pytest.mark.parametrize(("dtype", "written"), [("auto", "auto"), ("bfloat16", "auto"), ("fp8", "fp8")])
def test_a_cache_has_one_of_two_words(dtype: str, written: str) -> None:
    """The backend accepts auto, fp8 and nvfp4, and refuses bfloat16."""
    cache = settings(replace(LLAMA, kv_cache=KVCache(dtype=dtype)))["kv_cache_config"]
    assert isinstance(cache, dict)
    assert cache["dtype"] == written


def test_a_dtype_is_written_where_it_was_chosen() -> None:
    """Without a chosen precision, the engine reads the dtype from the checkpoint."""
    assert (settings(replace(LLAMA, precision="float16"))["dtype"], "dtype" in settings(LLAMA)) == ("float16", False)


def test_the_backend_checks_for_disconnected_clients_at_the_declared_interval() -> None:
    """The interval is in milliseconds."""
    config = settings(replace(LLAMA, cancellation_check_period_ms=250))["triton_config"]
    assert config == {"max_batch_size": 0, "decoupled": True, "cancellation_check_period_ms": 250}


@pytest.mark.parametrize(
    "model",
    [
        replace(GPT_OSS, moe_backend="TRITON"),
        replace(LLAMA, kv_cache=KVCache(host_mib=1024), scheduler="max_utilization", precision="float16"),
        replace(LLAMA, speculative=Eagle(weights=pinned("qwen3-8b"), tokens=3)),
        replace(LLAMA, speculative=Draft(checkpoint=ONE_B, weights=OWN)),
    ],
)
def test_the_llm_of_the_image_knows_every_argument(model: object) -> None:
    """The list is that of the stand-in image, which was read from llm_args.py."""
    source = Path(__file__).parents[2] / "rehearsal/llmapi/packages/tensorrt_llm/arguments.py"
    known: dict[str, Any] = {}
    exec(compile(source.read_text("utf-8"), str(source), "exec"), known)
    arguments = {name: value for name, value in settings(model).items() if name != "triton_config"}
    assert known["check"](arguments) is None
