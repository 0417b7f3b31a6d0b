"""What the backends are told: model.yaml of the LLM, parameters of the encoders."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from deploy.spec import KVCache
from tests.unit.given import EMBEDDER, GPT_OSS, LLAMA, MACHINE, RERANKER, main, plan

WEIGHTS = "/var/lib/enginehouse/weights"


def settings(model: object, **data: object) -> dict[str, object]:
    """The settings of the one model of a server."""
    return plan(**(main(model) | data)).for_host("h100-01").servers[0].models[0].settings


def test_gpt_oss_on_hopper_is_told_exactly_this() -> None:
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
    """CUTLASS is the fallback where the TRITON kernels do not load."""
    assert settings(replace(GPT_OSS, moe_backend="CUTLASS"))["moe_config"] == {"backend": "CUTLASS"}


def test_experts_are_split_over_gpus_and_never_cut() -> None:
    """The TRITON backend has expert parallel only."""
    data = main(GPT_OSS, gpus=(0, 1)) | {"machine": replace(MACHINE, gpus=2)}
    assert plan(**data).for_host("h100-01").servers[0].models[0].settings["moe_expert_parallel_size"] == 2


def test_the_tokens_decide_and_not_the_fraction() -> None:
    """A cache that takes all that is left: 58,512 of 58,512 + 2,048 is 96.6 percent, so 98 are allowed."""
    cache = settings(LLAMA)["kv_cache_config"]
    assert cache == {
        "max_tokens": 468_096,
        "free_gpu_memory_fraction": 0.98,
        "enable_block_reuse": True,
        "dtype": "auto",
    }


def test_reuse_can_be_switched_off() -> None:
    """And the cache then stops at 32 full sequences."""
    cache = settings(replace(LLAMA, kv_cache=KVCache(reuse=False)))["kv_cache_config"]
    assert isinstance(cache, dict)
    assert (cache["enable_block_reuse"], cache["max_tokens"]) == (False, 262_144)


def test_a_blackwell_card_may_have_an_fp8_cache() -> None:
    """Twice the tokens; only Hopper lists it as unsupported for gpt-oss."""
    model = replace(GPT_OSS, kv_cache=KVCache(tokens=65_536, dtype="fp8"))
    one = plan(**(main(model) | {"machine": replace(MACHINE, gpu="b200-180")})).for_host("h100-01").servers[0].models[0]
    assert one.memory.kv_cache_mib == 1_536


def test_the_embedder_is_told_exactly_this() -> None:
    """All text, as config.pbtxt wants it."""
    assert settings(replace(EMBEDDER, default_task="search_query")) == {
        "model_path": f"{WEIGHTS}/nomic/1066b6599d099fbb93dfcb64f9c37a7c9e503e85",
        "device": "cuda:0",
        "dtype": "fp16",
        "max_tokens": "512",
        "max_batch_tokens": "16384",
        "max_items": "1024",
        "default_task": "search_query",
        "memory_mib": "2131",
        "dimensions": "768",
    }


def test_an_encoder_on_the_cpu_is_told_so() -> None:
    """And has no cap on CUDA memory it will not use."""
    found = settings(replace(RERANKER, device="cpu", dtype="float32"))
    assert (found["device"], found["dtype"], found["memory_mib"]) == ("cpu", "fp32", "0")


@pytest.mark.parametrize("model", [EMBEDDER, RERANKER], ids=["embedder", "reranker"])
def test_the_encoders_know_every_parameter(model: object) -> None:
    """Names and values pass the reader the served model itself uses."""
    if "files/triton" not in " ".join(sys.path):
        pytest.fail("pyproject.toml puts files/triton on the path")
    from encoders.settings import Settings

    assert Settings.of(settings(model)).max_tokens == 512
