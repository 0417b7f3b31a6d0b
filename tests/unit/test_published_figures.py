"""Published memory figures, beside the planner's own count, with the source of each (read 2026-11-27)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.catalog import CHECKPOINTS
from deploy.models import memory
from deploy.models.config_json import checkpoint_of
from deploy.spec import Checkpoint
from tests.unit.published import ENTRIES
from tests.unit.samples import ONE_B
from tests.unit.test_memory_latent import DEEPSEEK_V3
from tests.unit.test_published_served import ENTRIES as SERVED_ENTRIES

GIB = 2**30
LLAMA_8B = CHECKPOINTS["llama-3.1-8b-instruct"].shape
LLAMA_70B = CHECKPOINTS["llama-3.3-70b-instruct"].shape
LLAMA_405B = replace(LLAMA_70B, layers=126, hidden=16_384, heads=128)
MISTRAL_7B = replace(LLAMA_8B, architecture="MistralForCausalLM", vocabulary=32_000)
GPT_2_XL = Checkpoint(
    architecture="GPT2LMHeadModel",
    parameters=1_557_611_200,
    layers=48,
    hidden=1600,
    heads=25,
    vocabulary=50_257,
    positions=1024,
)


def shape(name: str) -> Checkpoint:
    """The shape of a published repository."""
    entry = ENTRIES[name]
    return checkpoint_of(entry["config"], sum(entry["elements"].values()), name)


@pytest.mark.parametrize(
    ("counted", "tokens", "published_bytes"),
    [
        # the table of Hugging Face's post on Llama 3.1 (FP16), as huggingface/blog issue 2345 quotes and recomputes it
        (LLAMA_8B, 16_000, 1.95 * GIB),
        (LLAMA_8B, 128_000, 15.62 * GIB),
        (LLAMA_70B, 16_000, 4.88 * GIB),
        (LLAMA_70B, 128_000, 39.06 * GIB),
        # 516 KB and 70 KB a token: DeepSeek's paper on V3 and its hardware (May 2025), as quoted by its readers
        (LLAMA_405B, 1, 516_000),
        (DEEPSEEK_V3, 1, 70_000),
        # V3.x seen in llama.cpp with 16 bit: 10.72 GiB at 160k tokens, 68.625 at 1M (provide.ai on DeepSeek V4)
        (DEEPSEEK_V3, 160 * 1024, 10.72 * GIB),
        (DEEPSEEK_V3, 1024 * 1024, 68.625 * GIB),
        # "The weight of remembering", news.future-shock.ai, March 2026: 300 KiB a token of GPT-2 (XL), 128 of Llama 3
        (GPT_2_XL, 1, 300 * 1024),
        (LLAMA_8B, 1, 128 * 1024),
        # Sebastian Raschka's gallery of architectures (March 2026), as summaries quote it
        (ONE_B, 1, 32 * 1024),
        (DEEPSEEK_V3, 1, 68.6 * 1024),
        # a calculator of cache memory on dev.to (jagmarques): 4 GB at 32K tokens of both
        (CHECKPOINTS["mixtral-8x7b-instruct"].shape, 32 * 1024, 4 * GIB),
        (MISTRAL_7B, 32 * 1024, 4 * GIB),
        # SGLang's log on 4 H100 at tensor parallel 4, keys and values 8.23 GB each on a GPU (vLLM's issue 21348, 2025)
        (shape("qwen3-235b-a22b-fp8"), 367_404, 4 * 2 * 8.23 * GIB),
    ],
)
def test_a_cache_is_as_large_as_published(counted: Checkpoint, tokens: int, published_bytes: float) -> None:
    """The sizes agree within 1 %."""
    assert tokens * memory.kv_bytes_per_token(counted, "float16") == pytest.approx(published_bytes, rel=0.01)


def test_weights_are_as_large_as_published() -> None:
    """65.52 GB of Qwen3-32B in 16 bit: Intel's queue of low-bit models, April 2026."""
    mib = memory.llm_weights_mib(shape("qwen3-32b"))
    assert mib * memory.MIB == pytest.approx(65.52e9, rel=0.001)


def test_a_cache_of_8_bits_is_as_large_as_published() -> None:
    """128 KB a token of Qwen3 (32B) in 8 bits: a report on the RTX PRO 6000 on ai-navigate-news, 2026."""
    assert memory.kv_bytes_per_token(shape("qwen3-32b"), "fp8") == 128 * 1024


@pytest.mark.parametrize(
    ("name", "size"),
    [("gemma-3-1b-it", 26_624), ("glm-4.5-air", 188_416), ("qwen3-30b-a3b", 98_304), ("kimi-k2", 70_272)],
)
def test_a_token_of_a_family_that_was_added_takes_its_keys_and_values(name: str, size: int) -> None:
    """2 x 26 x 1 x 256, 2 x 46 x 8 x 128, 2 x 48 x 4 x 128 and 61 x 576 numbers of 2 bytes; not published."""
    assert memory.kv_bytes_per_token(shape(name), "bfloat16") == size


SERVED = SERVED_ENTRIES["NousResearch/Hermes-4-14B"]
GALLERY = {
    "allenai/Olmo-3-7B-Instruct": 512,
    "allenai/Olmo-3.1-32B-Instruct": 256,
    "HuggingFaceTB/SmolLM3-3B": 72,
    "moonshotai/Kimi-K2-Thinking": 68.6,
    "gpt-oss-20b": 48,
    "gpt-oss-120b": 72,
    "qwen3-8b": 144,
    "minimax-m2": 248,
    "phi-4": 200,
    "mistral-small-24b-2501": 160,
}
"""KiB of a token in bfloat16 by Sebastian Raschka's gallery of architectures, as a stored copy of it has them."""


@pytest.mark.parametrize("name", GALLERY)
def test_cache_bytes_per_token_match_the_architecture_gallery(name: str) -> None:
    if name in CHECKPOINTS:
        counted = CHECKPOINTS[name].shape
    else:
        counted = shape(name) if name in ENTRIES else checkpoint_of(SERVED_ENTRIES[name]["config"], 1, name)
    assert memory.kv_bytes_per_token(counted, "bfloat16") == pytest.approx(GALLERY[name] * 1024, rel=0.001)


@pytest.mark.parametrize(
    ("name", "sm", "published_gib"),
    [("gpt-oss-120b", 90, 64.38), ("gpt-oss-120b", 89, 65.9651), ("gpt-oss-20b", 80, 13.72)],
)
def test_gpt_oss_memory_includes_the_padding_of_vllms_kernels(name: str, sm: int, published_gib: float) -> None:
    """Logs: Triton's kernels on an H100 (vLLM's issue 33155), Marlin's (issue 23278; on an A100, myoceane.fr)."""
    counted = CHECKPOINTS[name].shape
    size = memory.llm_weights_bytes(counted) + memory.padding_bytes(counted, memory.padding_tiles(sm))
    assert size == pytest.approx(published_gib * GIB, rel=0.005)
    assert memory.padding_bytes(LLAMA_8B, memory.padding_tiles(sm)) == 0


@pytest.mark.parametrize(
    ("sm", "backend", "before", "after"),
    [(90, "auto", 2944, 3072), (90, "CUTLASS", 2944, 2944), (100, "auto", 3072, 2944), (120, "auto", 2944, 2944)],
)
def test_gpt_oss_memory_includes_the_padding_of_tensorrt_llm(sm: int, backend: str, before: int, after: int) -> None:
    """Shapes of `create_weights` in its fused_moe; 3.4 GiB of gpt-oss-120b on an H100 were counted as cache before."""
    counted = CHECKPOINTS["gpt-oss-120b"].shape
    added = memory.padding_bytes(counted, memory.padding_tiles(sm, backend))
    stored = 36 * 128 * 3 * 2880 * 2880 * 17 // 32
    assert stored + added == pytest.approx(36 * 128 * 2944 * (2 * before + after) * 17 / 32, abs=1)


@pytest.mark.parametrize(
    ("name", "tokens", "published_gib"),
    [
        # "24.0 GiB KV cache is needed" for 262,144 tokens of Qwen3-Coder-30B-A3B, the same shape: vLLM's issue 34076
        ("qwen3-30b-a3b", 262_144, 24.0),
        # the same sentence about MiniMax-M2.7, half of it on each of two GPUs: eugr/spark-vllm-docker, issue 396
        ("minimax-m2", 196_608, 2 * 23.25),
        # llama.cpp's buffers of 2,048 tokens, in a table of the hub (discussion 6 of dranger003's Command R)
        ("01-ai/Yi-1.5-34B-Chat", 2048, 480 / 1024),
        # a log of vLLM, February 2026: "Available KV cache memory: 19.28 GiB", "GPU KV cache size: 157,936 tokens"
        ("meta-llama/Llama-3.1-8B", 157_936, 19.28),
        # Qwen3-4B, the same shape, on an RTX 5080 by vLLM 0.25.0: 5.29 GiB for 38,544 tokens (a page that adds them up)
        ("Qwen/Qwen3-4B-Thinking-2507", 38_544, 5.29),
        # "QwQ can only run at IQ3_M due to 32GB KV cache" at 128k: a table of llama.cpp's buffers (Reddit, March 2025)
        ("Qwen/QwQ-32B", 131_072, 32.0),
    ],
)
def test_a_planned_cache_matches_the_servers_log(name: str, tokens: int, published_gib: float) -> None:
    counted = shape(name) if name in ENTRIES else checkpoint_of(SERVED_ENTRIES[name]["config"], 1, name)
    assert tokens * memory.kv_bytes_per_token(counted, "float16") == pytest.approx(published_gib * GIB, rel=0.001)


@pytest.mark.parametrize(
    ("parameters", "gpus", "published_gib"),
    [
        (30_532_122_624, 4, 14.2474),  # Qwen3-30B-A3B over four GPUs: vLLM's issue 17327
        (14_770_033_664, 2, 13.9476),  # DeepSeek-R1-Distill-Qwen-14B over two: issue 13061
        (8_030_261_248, 1, 14.99),  # Llama-3.1-8B-Instruct: a page of GoogleCloudPlatform/accelerated-platforms
        (4_022_468_096, 1, 7.56),  # Qwen3-4B: the page of the RTX 5080 above
        (23_572_403_200, 1, 43.92),  # Devstral Small 2507: the file in bfloat16, by baeseokjae.github.io's fixtures
    ],
)
def test_weights_take_what_servers_log(parameters: int, gpus: int, published_gib: float) -> None:
    counted = replace(LLAMA_8B, parameters=parameters)
    mib = memory.llm_weights_mib(counted, tensor_parallel=gpus)
    assert mib * memory.MIB == pytest.approx(published_gib * GIB, rel=0.015)


def test_qwen3_14bs_planned_memory_matches_vllms_log() -> None:
    """27.5185 GiB of weights, and 72,064 tokens in 11.00 GiB: a log that several tutorials of 2026 print."""
    counted = checkpoint_of(SERVED["config"], sum(SERVED["elements"].values()), "qwen3-14b")
    assert memory.llm_weights_bytes(counted) == pytest.approx(27.5185 * GIB, rel=0.001)
    assert 72_064 * memory.kv_bytes_per_token(counted, "bfloat16") == pytest.approx(11.00 * GIB, rel=0.001)
