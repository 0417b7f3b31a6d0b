"""The planner's MiB against hand calculation; every expected number is written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy import memory
from deploy.budget import server_budget
from deploy.catalog import CHECKPOINTS, GPUS
from deploy.resolve import serve
from deploy.spec import Checkpoint, KVCache, Weights
from deploy.surroundings import LocalWeights, Surroundings
from tests.unit.given import AROUND, GPT_OSS, LLAMA, MAIN, RERANKER, plan

GPT = CHECKPOINTS["gpt-oss-20b"].shape
BGE = CHECKPOINTS["bge-reranker-large"].shape
NOMIC = CHECKPOINTS["nomic-embed-text-v2-moe"].shape
LLAMA_SHAPE = CHECKPOINTS["llama-3.1-8b-instruct"].shape


def test_gpt_oss_weights_take_13124() -> None:
    """13,761,264,768 / 1,048,576 = 13,123.8."""
    assert memory.llm_weights_mib(GPT) == 13_124


def test_llama_weights_take_15317() -> None:
    """8,030,261,248 x 2 / 1,048,576 = 15,316.5."""
    assert memory.llm_weights_mib(LLAMA_SHAPE) == 15_317


def test_weights_split_over_the_gpus() -> None:
    """16,060,522,496 / 4 / 1,048,576 = 3,829.1."""
    assert memory.llm_weights_mib(LLAMA_SHAPE, tensor_parallel=4) == 3_830


@pytest.mark.parametrize(("quantisation", "size"), [("", 15_317), ("fp8", 8_661), ("nvfp4", 5_749)])
def test_quantised_weights_take_their_own_size(quantisation: str, size: int) -> None:
    """2, 1 and 0.5625 bytes for each of 6,979,588,096 parameters; table and head, 1,050,673,152, stay in 16 bit."""
    assert memory.llm_weights_mib(replace(LLAMA_SHAPE, quantisation=quantisation)) == size


def test_stated_weights_win() -> None:
    """The inventory knows how its own checkpoint is stored."""
    assert memory.llm_weights_mib(replace(LLAMA_SHAPE, weights_mib=5_000), stored_bytes=1) == 5_000


def test_headers_of_a_local_checkpoint_win_over_the_table() -> None:
    """9,000,000,000 / 1,048,576 = 8,583.1."""
    assert memory.llm_weights_mib(LLAMA_SHAPE, stored_bytes=9_000_000_000) == 8_584


@pytest.mark.parametrize(("dtype", "size"), [("float16", 1_068), ("float32", 2_136)])
def test_an_encoder_takes_its_dtype(dtype: str, size: int) -> None:
    """559,891,457 parameters: 1,067.9 and 2,135.8."""
    assert memory.encoder_weights_mib(BGE, dtype) == size  # type: ignore[arg-type]


def test_bge_workspace_takes_672() -> None:
    """14,336 elements x 16,384 tokens x 2 bytes = 448 MiB (449 measured on an H100), and half as much again."""
    assert memory.encoder_workspace_mib(BGE, "float16", 16_384) == 672


def test_nomic_workspace_takes_1224() -> None:
    """3x768 + 36x64 + 2 x (2x768 + 3x3072) = 26,112 elements: 816 MiB, and half as much again."""
    assert memory.encoder_workspace_mib(NOMIC, "float16", 16_384) == 1_224


def test_gpt_oss_workspace_takes_3795() -> None:
    """1.5 x (71,360 x 8,192 x 2 + 32 x 201,088 x 8) bytes = 1,746.1 MiB, and 2,048 for the runtime."""
    assert memory.llm_workspace_mib(GPT, max_num_tokens=8_192, max_batch_size=32) == 3_795


@pytest.mark.parametrize(
    ("shape", "dtype", "ways", "size"),
    [(GPT, "auto", 1, 49_152), (GPT, "fp8", 1, 24_576), (GPT, "auto", 4, 12_288), (LLAMA_SHAPE, "auto", 1, 131_072)],
)
def test_a_token_takes_its_keys_and_values(shape: Checkpoint, dtype: str, ways: int, size: int) -> None:
    """2 x 24 x 8 x 64 x 2 and 2 x 32 x 8 x 128 x 2 bytes, split over the GPUs."""
    assert memory.kv_bytes_per_token(shape, dtype, ways) == size


def test_a_70b_with_16_long_users_does_not_fit_four_cards() -> None:
    """80 x 8 x 128 x 2 bytes at fp8; 16 x 131,072 tokens over 4 GPUs: 81,920 MiB each, more than the card."""
    shape = replace(LLAMA_SHAPE, layers=80, hidden=8192, heads=64, head_dim=128)
    assert memory.kv_cache_mib(16 * 131_072, memory.kv_bytes_per_token(shape, "fp8", 4)) == 81_920


def test_tokens_come_in_whole_blocks() -> None:
    """1 MiB holds 21.3 tokens of gpt-oss, which is no block; 2 MiB hold 42.7, which is one."""
    assert (memory.kv_tokens_in(1, 49_152), memory.kv_tokens_in(2, 49_152)) == (0, 32)


def test_the_shipped_server_adds_up() -> None:
    """2,444 + 2,835 + 30,615 + 592 = 36,486 of 79,031."""
    models = {model.name: model.memory.total_mib for model in plan().for_host("h100-01").servers[0].models}
    assert models == {"bge": 2_444, "nomic": 2_835, "gpt-oss-20b": 30_615}


def test_without_reuse_the_cache_stops_where_every_sequence_is_full() -> None:
    """32 sequences of 8,192 tokens."""
    assert plan().for_host("h100-01").servers[0].models[-1].kv_cache_tokens == 262_144


def test_with_reuse_the_cache_takes_all_that_is_left() -> None:
    """79,031 - 592 - 15,317 - 1,408 - 3,199 = 58,515 MiB, 8 tokens in each: 468,120, in whole blocks 468,096.

    Workspace: 3x4096 + 48x128 + 2x14,336 = 47,104 elements; 1.5 x (47,104 x 8,192 x 2 + 32 x 128,256 x 8) is 1,151 MiB.
    """
    server = replace(MAIN, models=(LLAMA,))
    share = server_budget(server, [serve(LLAMA, AROUND)], GPUS["h100-80"]).shares[0]  # type: ignore[list-item]
    assert (share.memory.workspace_mib, share.kv_cache_tokens) == (3_199, 468_096)


def test_a_cache_that_was_asked_for_is_not_grown() -> None:
    """A number of tokens is a number of tokens."""
    asked = replace(GPT_OSS, kv_cache=KVCache(tokens=65_536))
    one = plan(servers=(replace(MAIN, models=(asked,)),)).for_host("h100-01").servers[0].models[0]
    assert (one.kv_cache_tokens, one.memory.kv_cache_mib) == (65_536, 3_072)


def test_an_encoder_on_the_cpu_takes_nothing_of_the_gpu() -> None:
    """It has no CUDA context either."""
    model = replace(RERANKER, device="cpu", dtype="float32")
    assert (
        plan(servers=(replace(MAIN, models=(model,)),)).for_host("h100-01").servers[0].models[0].memory.total_mib == 0
    )


def test_an_encoder_counts_the_parameters_of_a_local_checkpoint() -> None:
    """1,048,576 parameters in float16 are 2 MiB."""
    local = LocalWeights(revision="local-0", stored_bytes=4_194_304, parameters=1_048_576, files=())
    model = replace(RERANKER, weights=Weights.local("w"))
    served = serve(model, Surroundings(today=AROUND.today, local={"w": local}))
    assert served is not None
    assert server_budget(MAIN, [served], GPUS["h100-80"]).shares[0].memory.weights_mib == 2
