"""Multi-head latent attention (DeepSeek-V3, R1, Kimi-K2) compared with hand calculations, number by number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.models import memory
from deploy.spec import Checkpoint, KVCache
from tests.unit.samples import LLAMA, MACHINE, OWN, main, plan

LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 128}
DEEPSEEK_V3 = Checkpoint(
    architecture="DeepseekV3ForCausalLM",
    parameters=671_026_419_200,
    layers=61,
    hidden=7168,
    heads=128,
    kv_heads=128,
    intermediate=2048,
    vocabulary=129_280,
    positions=163_840,
    experts=256,
    active_experts=8,
    quantisation="fp8",
    q_lora_rank=1536,
    **LATENT,
)
KIMI_K2 = replace(DEEPSEEK_V3, parameters=1_026_000_000_000, heads=64, kv_heads=64, vocabulary=163_840, experts=384)
V2_LITE = replace(DEEPSEEK_V3, layers=27, hidden=2048, heads=16, kv_heads=16, q_lora_rank=0)


@pytest.mark.parametrize(
    ("shape", "dtype", "tensor", "pipeline", "size"),
    [
        (DEEPSEEK_V3, "auto", 1, 1, 70_272),
        (DEEPSEEK_V3, "auto", 8, 1, 70_272),
        (DEEPSEEK_V3, "fp8", 8, 1, 35_136),
        (DEEPSEEK_V3, "auto", 8, 2, 35_712),
        (KIMI_K2, "auto", 16, 1, 70_272),
        (V2_LITE, "auto", 1, 1, 31_104),
    ],
)
def test_a_latent_is_kept_once_and_on_every_gpu(
    shape: Checkpoint, dtype: str, tensor: int, pipeline: int, size: int
) -> None:
    """(512 + 64) x 61 x 2 bytes, 61 layers in two stages are 31, 27 layers of V2-Lite: tensor parallelism cuts none."""
    assert memory.kv_bytes_per_token(shape, dtype, tensor, pipeline) == size


def test_projections_into_a_latent_lie_whole_on_every_gpu() -> None:
    """672,879,919,104 / 8 bytes are 80,213.5 MiB; with 923,467,776 elements, 926,018,571 bytes, on each: 80,986.2."""
    cut = replace(DEEPSEEK_V3, kv_lora_rank=0, q_lora_rank=0)
    assert memory.llm_weights_mib(cut, tensor_parallel=8) == 80_214
    assert memory.llm_weights_mib(DEEPSEEK_V3, tensor_parallel=8) == 80_987


def test_latent_attention_adds_its_rotary_positions_to_the_parameters() -> None:
    """Elements of a layer: 3 x 7,168 + 128 x (3 x 128 + 2 x 64) + 576 + 8 x (2 x 7,168 + 3 x 2,048)."""
    assert memory.layer_elements(DEEPSEEK_V3) == 251_456


def test_deepseek_is_planned_with_its_latent() -> None:
    """Eight H200 141GB: 70,272 bytes for each of 65,536 tokens are 4,392 MiB on each GPU."""
    llm = replace(LLAMA, name="v3", checkpoint=DEEPSEEK_V3, weights=OWN, kv_cache=KVCache(tokens=65_536))
    machine = replace(MACHINE, gpu="h200-141", gpus=8)
    made = plan(**main(llm, gpus=tuple(range(8))), machine=machine)
    assert made.slices[0].servers[0].models[0].memory.kv_cache_mib == 4_392
