"""The planner's MiB compared with hand calculations; every expected number is written out.

More than 300 lines: each case carries its own arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog import CHECKPOINTS, GPUS
from deploy.models import memory
from deploy.models.budget import Share, host_mib, server_budget
from deploy.models.resolve import gpu_of, serve
from deploy.spec import LLM, Adapter, Checkpoint, Draft, Eagle, Host, KVCache, Lookahead, LoRA, Medusa, Weights
from deploy.spec.surroundings import LocalWeights, Surroundings
from tests.unit.samples import (
    AROUND,
    GPT_OSS,
    LLAMA,
    MACHINE,
    MAIN,
    ONE_B,
    RERANKER,
    main,
    pinned,
    plan,
    refusals,
)

GPT = CHECKPOINTS["gpt-oss-20b"].shape
BGE = CHECKPOINTS["bge-reranker-large"].shape
NOMIC = CHECKPOINTS["nomic-embed-text-v2-moe"].shape
LLAMA_SHAPE = CHECKPOINTS["llama-3.1-8b-instruct"].shape
LLAMA_70B = CHECKPOINTS["llama-3.1-70b-instruct"].shape


def test_gpt_oss_weights_take_13124() -> None:
    """The weights have 13,761,264,768 bytes, which are 13,123.8 MiB."""
    assert memory.llm_weights_mib(GPT) == 13_124


def test_llama_weights_take_15317() -> None:
    """The weights are 8,030,261,248 parameters of 2 bytes, which are 15,316.5 MiB."""
    assert memory.llm_weights_mib(LLAMA_SHAPE) == 15_317


def test_weights_split_over_the_gpus() -> None:
    """A quarter of 16,060,522,496 bytes is 3,829.1 MiB."""
    assert memory.llm_weights_mib(LLAMA_SHAPE, tensor_parallel=4) == 3_830


@pytest.mark.parametrize(("quantisation", "size"), [("", 15_317), ("fp8", 8_661), ("nvfp4", 5_749)])
def test_quantised_weights_take_their_own_size(quantisation: str, size: int) -> None:
    """2, 1 and 0.5625 bytes for each of 6,979,588,096 parameters; table and head, 1,050,673,152, stay in 16 bit."""
    assert memory.llm_weights_mib(replace(LLAMA_SHAPE, quantisation=quantisation)) == size


def test_stated_weights_win() -> None:
    """The inventory states the stored size of its own checkpoint."""
    assert memory.llm_weights_mib(replace(LLAMA_SHAPE, weights_mib=5_000), stored_bytes=1) == 5_000


def test_headers_of_a_local_checkpoint_win_over_the_table() -> None:
    """The headers count 9,000,000,000 bytes, which are 8,583.1 MiB."""
    assert memory.llm_weights_mib(LLAMA_SHAPE, stored_bytes=9_000_000_000) == 8_584


@pytest.mark.parametrize(("dtype", "size"), [("float16", 1_068), ("float32", 2_136)])
def test_an_encoder_takes_its_dtype(dtype: str, size: int) -> None:
    """The 559,891,457 parameters take 1,067.9 MiB in 16 bit and 2,135.8 MiB in 32 bit."""
    assert memory.encoder_weights_mib(BGE, dtype) == size


@pytest.mark.parametrize(("streams", "size"), [(1, 602), (2, 1_019)])
def test_bge_workspace_takes_417_for_each_stream(streams: int, size: int) -> None:
    """14,336 elements x 16,384 tokens x 2 bytes = 448 MiB (449 measured on an H100); 93 % of it, and 185."""
    assert memory.encoder_workspace_mib(BGE, "float16", 16_384, streams) == size


def test_in_bfloat16_states_are_kept_in_float32_beside() -> None:
    """448 MiB, and 2 x 1,024 x 4 bytes x 16,384 tokens = 128 MiB more; 93 % of it, and 185."""
    assert memory.encoder_workspace_mib(BGE, "bfloat16", 16_384, 1) == 721


def test_nomic_workspace_takes_721() -> None:
    """3x768 + 36x64 + 2 x (768 + 2x3072) = 18,432 elements: 576 MiB; 93 % of it, and 185."""
    assert memory.encoder_workspace_mib(NOMIC, "float16", 16_384, 1) == 721


MEASURED = {(BGE, 2): ((4_096, 2_223), (16_384, 2_601), (65_536, 5_361))}
MEASURED |= {(NOMIC, 1): ((4_096, 1_887), (16_384, 2_227), (65_536, 3_671))}
"""Tokens of a pass, and MiB that the encoder took of an H100 80GB HBM3 (torch 2.11.0+cu130, float16, 2026-11-23)."""


@pytest.mark.parametrize(("shape", "streams"), MEASURED)
def test_an_encoders_planned_memory_is_within_ten_percent_of_the_measured(shape: Checkpoint, streams: int) -> None:
    """Weights, context and workspace together, and never less: a lower limit would lose its graphs."""
    fixed = memory.encoder_weights_mib(shape, "float16") + memory.ENCODER_CONTEXT_MIB
    for tokens, taken in MEASURED[shape, streams]:
        planned = fixed + memory.encoder_workspace_mib(shape, "float16", tokens, streams)
        assert 0.9 * planned <= taken <= planned


def test_gpt_oss_workspace_takes_3795() -> None:
    """1.5 x (71,360 x 8,192 x 2 + 32 x 201,088 x 8) bytes = 1,746.1 MiB, and 2,048 for the runtime."""
    assert memory.llm_workspace_mib(GPT, max_num_tokens=8_192, max_batch_size=32) == 3_795


@pytest.mark.parametrize(("precision", "taken"), [("", 34_356), ("", 33_284), ("", 32_860), ("fp8", 26_574)])
def test_vllm_is_planned_within_five_percent_of_what_it_took(precision: str, taken: int) -> None:
    """Llama-3.1-8B, 64 rows, a cache of 131,072 tokens: full, and before a full pass after starts, cold and warm.

    vLLM 0.26.0, 2026-11-27 and 2026-11-28, 16 bits on two H100s, FP8 on an H200.
    """
    planned = memory.llm_weights_mib(LLAMA_SHAPE, precision=precision) + memory.VLLM_PROCESSES * memory.CONTEXT_MIB
    planned += memory.vllm_workspace_mib(LLAMA_SHAPE, max_num_tokens=8_192, rows=64, tensor_parallel=1, gpus=1)
    planned += memory.kv_cache_mib(131_072, memory.kv_bytes_per_token(LLAMA_SHAPE, "auto"))
    assert 0.95 * planned <= taken <= planned


def test_many_rows_of_vllm_are_planned_by_their_logits() -> None:
    """1,024 x 128,256 x 40 bytes = 5,010 MiB, and 1,024; on two GPUs 430 more."""
    rows = {"max_num_tokens": 8_192, "rows": 1_024, "tensor_parallel": 1}
    assert memory.vllm_workspace_mib(LLAMA_SHAPE, **rows, gpus=1) == 6_034
    assert memory.vllm_workspace_mib(LLAMA_SHAPE, **rows, gpus=2) == 6_464


@pytest.mark.parametrize(
    ("shape", "dtype", "gpus", "size"),
    [(GPT, "auto", 1, 49_152), (GPT, "fp8", 1, 24_576), (GPT, "auto", 4, 12_288), (LLAMA_SHAPE, "auto", 1, 131_072)],
)
def test_a_token_takes_its_keys_and_values(shape: Checkpoint, dtype: str, gpus: int, size: int) -> None:
    """2 x 24 x 8 x 64 x 2 and 2 x 32 x 8 x 128 x 2 bytes, split over the GPUs."""
    assert memory.kv_bytes_per_token(shape, dtype, gpus) == size


def test_a_70b_with_16_long_users_does_not_fit_four_cards() -> None:
    """80 x 8 x 128 x 2 bytes at fp8; 16 x 131,072 tokens over 4 GPUs: 81,920 MiB each, more than the card."""
    assert memory.kv_cache_mib(16 * 131_072, memory.kv_bytes_per_token(LLAMA_70B, "fp8", 4)) == 81_920


def test_tokens_come_in_whole_blocks() -> None:
    """1 MiB holds 21.3 tokens of gpt-oss, less than one block; 2 MiB hold 42.7, which is one block."""
    assert (memory.kv_tokens_in(1, 49_152), memory.kv_tokens_in(2, 49_152)) == (0, 32)


def test_the_shipped_server_adds_up() -> None:
    """Models and overhead take 2,880 + 2,421 + 31,197 + 592 = 37,090 MiB of 79,031."""
    models = {model.name: model.memory.total_mib for model in plan().for_host("h100-01").servers[0].models}
    assert models == {"bge": 2_880, "nomic": 2_421, "gpt-oss-20b": 31_197}


def test_without_reuse_the_cache_stops_where_every_sequence_is_full() -> None:
    """The cache holds 32 sequences of 8,192 tokens."""
    assert plan().for_host("h100-01").servers[0].models[-1].kv_cache_tokens == 262_144


def test_with_reuse_the_cache_takes_all_that_is_left() -> None:
    """79,031 - 592 - 15,317 - 1,408 - 3,199 = 58,515 MiB, 8 tokens in each: 468,120, in whole blocks 468,096.

    Workspace: 3x4096 + 48x128 + 2x14,336 = 47,104 elements; 1.5 x (47,104 x 8,192 x 2 + 32 x 128,256 x 8) is 1,151 MiB.
    """
    server = replace(MAIN, models=(LLAMA,))
    share = server_budget(server, [serve(LLAMA, AROUND)], GPUS["h100-80"]).shares[0]
    assert (share.memory.workspace_mib, share.kv_cache_tokens) == (3_199, 468_096)


def test_a_cache_that_was_asked_for_is_not_grown() -> None:
    """A declared number of tokens is kept."""
    bounded = replace(GPT_OSS, kv_cache=KVCache(tokens=65_536))
    served = plan(servers=(replace(MAIN, models=(bounded,)),)).for_host("h100-01").servers[0].models[0]
    assert (served.kv_cache_tokens, served.memory.kv_cache_mib) == (65_536, 3_072)


def test_an_encoder_on_the_cpu_uses_no_gpu_memory() -> None:
    """An encoder on the CPU has no CUDA context either."""
    model = replace(RERANKER, device="cpu", dtype="float32")
    assert (
        plan(servers=(replace(MAIN, models=(model,)),)).for_host("h100-01").servers[0].models[0].memory.total_mib == 0
    )


def test_an_encoder_counts_the_parameters_of_a_local_checkpoint() -> None:
    """The 1,048,576 parameters take 2 MiB in float16."""
    local = LocalWeights(revision="local-0", stored_bytes=4_194_304, parameters=1_048_576, files=())
    model = replace(RERANKER, weights=Weights.local("w"))
    served = serve(model, Surroundings(today=AROUND.today, local={"w": local}))
    assert served is not None
    assert server_budget(MAIN, [served], GPUS["h100-80"]).shares[0].memory.weights_mib == 2


def test_an_fp8_70b_takes_17323_on_each_of_four() -> None:
    """68,452,360,192 + 2 x 2,101,346,304 = 72,655,052,800 bytes; a quarter is 17,322.4 MiB."""
    assert memory.llm_weights_mib(LLAMA_70B, precision="fp8", tensor_parallel=4) == 17_323


@pytest.mark.parametrize(("precision", "size"), [("int4_awq", 5_541), ("int8_wo", 8_661), ("w4a8_awq", 5_541)])
def test_four_and_eight_bits_take_their_scales_along(precision: str, size: int) -> None:
    """6,979,588,096 x 17 / 32 + 2,101,346,304 = 5,809,252,480 bytes (5,540.1 MiB), and 8,660.3."""
    assert memory.llm_weights_mib(LLAMA_SHAPE, precision=precision) == size


def test_a_stage_holds_its_layers_and_one_of_table_and_head() -> None:
    """70B in 16 bit over two stages: 40 of 80 layers (136,904,720,384 / 2) and 2,101,346,304: 67,285.3 MiB."""
    assert memory.llm_weights_mib(LLAMA_70B, pipeline_parallel=2) == 67_286


@pytest.mark.parametrize(
    ("tensor", "pipeline", "size"), [(1, 1, 163_840), (4, 1, 40_960), (4, 2, 20_480), (16, 1, 20_480)]
)
def test_a_token_of_a_70b_in_fp8(tensor: int, pipeline: int, size: int) -> None:
    """2 x 80 x 8 x 128 bytes; stages have half the layers, and sixteen GPUs a copy of a head each."""
    assert memory.kv_bytes_per_token(LLAMA_70B, "fp8", tensor, pipeline) == size


def chat_70b(users: int, gpu: str) -> dict[str, Any]:
    """Data of four GPUs with a 70B model in fp8, and with a cache for `users` sequences of 131,072 tokens."""
    model = replace(
        LLAMA,
        checkpoint="llama-3.3-70b-instruct-fp8",
        weights=pinned("llama-3.3-70b-instruct-fp8"),
        kv_cache=KVCache(tokens=users * 131_072, dtype="fp8"),
        chunked_prefill=True,
        max_batch_size=users,
        max_seq_len=131_072,
    )
    return main(model, gpus=(0, 1, 2, 3)) | {"machine": replace(MACHINE, gpu=gpu, gpus=4)}


@pytest.mark.parametrize(
    ("users", "gpu", "fits"), [(16, "h200-141", True), (16, "h100-80", False), (11, "h100-80", True)]
)
def test_long_users_of_a_70b(users: int, gpu: str, fits: bool) -> None:
    """5,120 MiB for each on each of four GPUs: 16 take 81,920, more than an H100 80GB has; 11 take 56,320."""
    assert (refusals(**chat_70b(users, gpu)) == []) is fits


def test_the_refusal_says_how_many_tokens_fit() -> None:
    """79,031 - 592 - 17,323 - 1,408 - 2,612 = 57,096 MiB of 40,960 bytes: 1,461,632 tokens, eleven whole users."""
    problems = refusals(**chat_70b(16, "h100-80"))
    assert [problem.attempt for problem in problems] == [
        "KVCache(tokens=1461632) for llama, or one model fewer on this GPU"
    ]


def share(model: LLM, gpus: int = 1, trtllm: str = "1.2.1") -> Share:
    """The share of an LLM alone on H100s."""
    server = replace(MAIN, models=(model,), gpus=tuple(range(gpus)))
    served = serve(model, AROUND)
    assert served is not None
    return server_budget(server, [served], GPUS["h100-80"], trtllm).shares[0]


def test_a_draft_model_takes_weights_and_cache() -> None:
    """1,235,814,400 x 2 bytes are 2,357.2 MiB beside 15,317; a token has 2 x 16 x 8 x 64 x 2 bytes beside 131,072."""
    served = share(replace(LLAMA, speculative=Draft(checkpoint=ONE_B, weights=pinned("qwen3-8b"))))
    assert (served.memory.weights_mib, served.kv_bytes_per_token) == (17_675, 163_840)


def test_the_engine_of_a_draft_runs_beside_its_target_s() -> None:
    """The draft needs a process of 704 MiB and its own workspace: 25,600 x 8,192 x 2 + 32 x 128,256 x 8 = 452,263,936
    bytes.

    With half more that is 647 MiB, and 2,048 MiB for the runtime; the target, which scores 160 rows, has 3,387 MiB.
    PyTorch drafts in the target's own process.
    """
    model = replace(LLAMA, speculative=Draft(checkpoint=ONE_B, weights=pinned("qwen3-8b")))
    budgets = [share(replace(model, path=path)).memory for path in ("engine", "pytorch")]
    assert [(budget.context_mib, budget.workspace_mib) for budget in budgets] == [
        (1_408, 3_387 + 2_695),
        (1_408, 3_387),
    ]


def test_an_eagle_head_takes_a_layer_of_cache_and_its_weights() -> None:
    """50,331,648 + 16,777,216 (attention) + 176,160,768 (inner) + 50,331,648 (projection) + 525,336,576 (output head).

    Twice their sum of 818,937,856 are 1,562 MiB; one layer of cache is 131,072 / 32 bytes.
    """
    served = share(replace(LLAMA, speculative=Eagle(weights=pinned("qwen3-8b"), tokens=3)))
    assert (served.memory.weights_mib, served.kv_bytes_per_token) == (15_317 + 1_562, 131_072 + 4_096)


def test_medusa_heads_are_many() -> None:
    """4 x (4096 x 4096 + 4096 + 128,256 x 4096) x 2 bytes = 4,136.0 MiB, rounded up."""
    model = replace(LLAMA, path="engine", speculative=Medusa(weights=pinned("qwen3-8b")))
    assert share(model).memory.weights_mib == 15_317 + 4_137


def test_lookahead_needs_no_weights() -> None:
    """Lookahead drafts from the sequence itself."""
    assert share(replace(LLAMA, path="engine", speculative=Lookahead())).memory.weights_mib == 15_317


def test_adapters_have_a_cache_on_the_gpu() -> None:
    """The cache takes 512 MiB, in addition to 3,199 MiB of workspace."""
    lora = LoRA(adapters=(Adapter(name="a", task_id=1, weights=pinned("qwen3-8b")),), gpu_mib=512)
    assert share(replace(LLAMA, path="engine", lora=lora)).memory.workspace_mib == 3_711


def test_an_engine_runs_inside_tritonserver() -> None:
    """An engine has one context fewer than the PyTorch path, whose worker is a separate process."""
    paths = ("engine", "pytorch")
    assert [share(replace(LLAMA, path=path)).memory.context_mib for path in paths] == [704, 1_408]


def test_pinned_host_memory_is_counted_once_for_every_rank() -> None:
    """Each of the four ranks pins 1,024 MiB."""
    model = replace(LLAMA, kv_cache=KVCache(host_mib=1024))
    server = replace(MAIN, models=(model,), gpus=(0, 1, 2, 3))
    assert host_mib(server, [serve(model, AROUND)]) == 4_096


def test_a_mig_instance_is_a_card_of_its_own_size() -> None:
    """40,448 MiB and 256 of it kept: 40,192; the tightest of a server's instances counts."""
    host = Host(name="h", machine=replace(MACHINE, mig=("3g.40gb", "3g.40gb")), servers=())
    instance = gpu_of(host, replace(MAIN, gpus=(1,)))
    assert instance is not None
    assert instance.usable_mib == 40_192
