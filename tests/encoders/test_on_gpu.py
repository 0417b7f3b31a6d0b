"""Both published sizes with random weights on a CUDA device, against the numpy reference, one sequence at a time.

Random weights give all texts one large common state; trained ones do not. So the projections after GELU have their
mean taken out here, what else is added to every token is small, and the gates also hold for that in which texts differ.
"""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders import attention, choices, linear, plain, routing
from encoders.embedding import Embedder
from encoders.packing import Packed, form, pack
from encoders.reranking import Reranker
from encoders.settings import Settings
from tests.encoders import checkpoints, reference
from tests.encoders.closeness import distance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device that torch can see"),
]

NOMIC = checkpoints.NOMIC | {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "vocab_size": 250048}
BGE = checkpoints.XLMR | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
BGE |= {"intermediate_size": 4096, "max_position_embeddings": 514, "vocab_size": 250002}


DEVICE = "cuda:0"
FULL = 40
"""Times the sequences in one pass of 8,120 tokens, which goes other ways than a small one (linear.by_rows)."""
PLAN_MIB = {"nomic": 2131, "bge": 1740}
"""Weights and workspace that deploy/memory.py grants each in fp16 at 16,384 tokens a pass."""


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    """No test finds another's memory or cap."""
    yield
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.fixture(scope="module")
def sequences() -> list[np.ndarray]:
    """Token ids of 8 to 60 tokens, special tokens around them."""
    rng = np.random.default_rng(3)
    lengths = (60, 8, 24, 16, 33, 9, 41, 12)
    return [np.concatenate(([0], rng.integers(4, 250_000, n - 2), [2])).astype(np.int32) for n in lengths]


def spread(weights: checkpoints.Weights, config: dict[str, Any]) -> checkpoints.Weights:
    """`weights` without the mean that the projections after GELU would add to every token, and little else added."""
    for name, weight in weights.items():
        if name.endswith((".bias", "token_type_embeddings.weight")):
            weights[name] = weight / 10
        if name.endswith("fc2.weight"):
            weights[name] = weight - weight.mean(1, keepdims=True)
        if name.endswith("experts.mlp.w2"):
            stack = weight.reshape(config["num_experts"], config["n_inner"], config["n_embd"])
            weights[name] = (stack - stack.mean(1, keepdims=True)).reshape(weight.shape)
    return weights


@pytest.fixture(scope="module")
def nomic_full(tmp_path_factory: pytest.TempPathFactory, sequences: list[np.ndarray]) -> tuple[Path, np.ndarray]:
    """nomic-embed-text-v2-moe's size, and its vectors of `sequences`."""
    weights = spread(checkpoints.weights_for(NOMIC, deviation=0.02), NOMIC)
    wanted = [reference.nomic_layers(weights, NOMIC, ids.tolist())[-1] for ids in sequences]
    path = checkpoints.write(tmp_path_factory.mktemp("nomic_full"), NOMIC, weights)
    return path, np.stack([reference.unit_mean(states) for states in wanted])


@pytest.fixture(scope="module")
def bge_full(tmp_path_factory: pytest.TempPathFactory, sequences: list[np.ndarray]) -> tuple[Path, np.ndarray]:
    """bge-reranker-large's size, and its logits of `sequences`."""
    weights = checkpoints.weights_for(BGE, deviation=0.02)
    wanted = [reference.logit(weights, BGE, ids.tolist()) for ids in sequences]
    return checkpoints.write(tmp_path_factory.mktemp("bge_full"), BGE, weights), np.array(wanted)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-6), ("fp16", 1e-4), ("bf16", 3e-4)])
def test_vectors_stay_within_their_gate_also_without_the_corpus_mean(
    nomic_full: tuple[Path, np.ndarray], sequences: list[np.ndarray], dtype: str, gate: float
) -> None:
    embedder = Embedder(Settings(model_path=str(nomic_full[0]), dtype=dtype))
    for times in (1, FULL):
        seen = distance(unit(embedder.runner(sequences * times)), np.tile(nomic_full[1], (times, 1)))
        print(dtype, times, embedder.notes, seen, "vectors alike by", (nomic_full[1] @ nomic_full[1].T).mean())
        assert seen.cosine <= gate and seen.centred <= gate


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-4), ("fp16", 5e-3), ("bf16", 3e-2)])
def test_logits_stay_within_their_gate(
    bge_full: tuple[Path, np.ndarray], sequences: list[np.ndarray], dtype: str, gate: float
) -> None:
    reranker = Reranker(Settings(model_path=str(bge_full[0]), dtype=dtype))
    for times in (1, FULL):
        seen = np.abs(reranker.runner(sequences * times) - np.tile(bge_full[1], times)).max()
        print(dtype, times, reranker.notes, seen, "of a spread of", np.ptp(bge_full[1]))
        assert seen <= gate


@pytest.mark.parametrize("fixture", ["nomic_full", "bge_full"])
def test_batch_mates_order_cut_and_room_do_not_show(
    fixture: str, sequences: list[np.ndarray], request: pytest.FixtureRequest
) -> None:
    kind = Embedder if fixture == "nomic_full" else Reranker
    runner = kind(Settings(model_path=str(request.getfixturevalue(fixture)[0]))).runner
    alone = np.concatenate([runner([ids]) for ids in sequences])
    shuffled = runner(sequences[::-1])[::-1]
    runner.graphs.offered = []
    eager = np.concatenate([runner(sequences[:3]), runner(sequences[3:])])
    for other in (shuffled, eager):
        if fixture == "bge_full":
            assert np.abs(other - alone).max() <= 2e-3
        else:
            assert np.abs(unit(other) - unit(alone)).max() <= 2e-3
            assert distance(unit(other), unit(alone)).cosine <= 1e-4


@pytest.mark.parametrize(("fixture", "kind"), [("nomic_full", Embedder), ("bge_full", Reranker)])
def test_weights_workspace_and_graphs_stay_within_what_the_plan_grants(
    fixture: str, kind: Any, request: pytest.FixtureRequest
) -> None:
    torch.cuda.reset_peak_memory_stats()
    granted = PLAN_MIB[fixture.removesuffix("_full")]
    model = kind(Settings(model_path=str(request.getfixturevalue(fixture)[0]), memory_mib=granted))
    rng = np.random.default_rng(5)
    for _ in range(20):
        lengths = rng.integers(4, 512, 30)
        model.runner([np.full(n, 7, np.int32) for n in lengths])
    print(fixture, model.runner.held_mib(), "MiB held,", model.runner.peak_bytes() >> 20, "at the peak of", granted)
    assert model.budget == 16384 and len(model.runner.graphs.offered) >= 12
    assert model.runner.peak_bytes() <= granted << 20


def test_a_memory_cap_halves_the_pass_instead_of_failing(nomic_full: tuple[Path, np.ndarray]) -> None:
    tight = Embedder(Settings(model_path=str(nomic_full[0]), memory_mib=1300, max_batch_tokens=65536))
    print(tight.budget, "tokens a pass,", tight.runner.held_mib(), "MiB held")
    assert 512 <= tight.budget < 65536
    assert tight.runner.held_mib() <= 1300


def test_8_bit_products_keep_the_order_of_scores_and_say_how_far_they_moved(
    bge_full: tuple[Path, np.ndarray], sequences: list[np.ndarray]
) -> None:
    reranker = Reranker(Settings(model_path=str(bge_full[0]), products="fp8"))
    got = reranker.runner(sequences)
    print(reranker.notes[-1], np.abs(got - bge_full[1]).max())
    assert reranker.notes[-1].startswith("fp8 products (states moved by 1 - cosine 0.0")
    assert np.corrcoef(got, bge_full[1])[0, 1] > 0.8


HALVES = [torch.float16, torch.bfloat16]


def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator(DEVICE).manual_seed(len(shape)), device=DEVICE).to(dtype)


def near(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    step = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(got.float(), wanted.float(), rtol=step, atol=step)


def near8(got: torch.Tensor, wanted: torch.Tensor, scale: float, dtype: torch.dtype) -> None:
    """As near as the format before allows, or neighbours, which lie up to 1/8 apart; what is too large is cut."""
    assert got.dtype == wanted.dtype == torch.float8_e4m3fn
    step = {torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype] + scale / 8
    torch.testing.assert_close(got.float() * scale, wanted.float() * scale, rtol=0.13, atol=step)
    assert (got.float() != wanted.float()).float().mean() < 0.3


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_every_fused_step_equals_the_plain_one(dtype: torch.dtype) -> None:
    fused = choices.fused()
    x, y, qkv = (random(70, n, dtype=dtype) for n in (768, 768, 2304))
    norm, positions = plain.Norm(x[0], y[0], 1e-5), torch.arange(70, device=DEVICE, dtype=torch.int32)
    ids, starts = positions % 7, torch.tensor([0, 1, 40, 70], device=DEVICE, dtype=torch.int32)
    turns = random(70, 64, dtype=torch.float32)
    wide = x.float() if dtype == torch.bfloat16 else x
    for run, arguments in (
        ("embed", (ids, positions, x, y, x[1], norm)),
        ("embed", (ids, positions, x, None, x[1], norm)),
        ("add_norm", (y, x[2], wide, norm)),
        ("add_norm", (y, x[2], wide[:35], norm)),
    ):
        got, wanted = (getattr(steps, run)(*arguments) for steps in (fused, plain))
        near(got.narrow, wanted.narrow, dtype)
        near(got.wide, wanted.wide, torch.float32 if dtype == torch.bfloat16 else dtype)
    near(fused.mean(x, starts), plain.mean(x, starts), torch.float32)
    near(fused.gelu_(x.clone()), plain.gelu_(x), dtype)
    turned = [qkv.clone(), qkv.clone()]
    for each, steps in zip(turned, (fused, plain), strict=True):
        steps.rotate_(each, positions, turns)
    near(*turned, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_step_that_writes_8_bits_writes_what_the_plain_one_does(dtype: torch.dtype) -> None:
    fused = choices.fused()
    x, y = (random(70, 768, dtype=dtype) for _ in range(2))
    norm, positions = plain.Norm(x[0], y[0], 1e-5, output_scale=0.005), torch.arange(70, device=DEVICE)
    wide = x.float() if dtype == torch.bfloat16 else x
    for run, arguments in (
        ("embed", (positions % 7, positions, x, y, x[1], norm)),
        ("add_norm", (y, x[2], wide, norm)),
    ):
        got, wanted = (getattr(steps, run)(*arguments) for steps in (fused, plain))
        near8(got.narrow, wanted.narrow, norm.output_scale, dtype)
        near(got.wide, wanted.wide, torch.float32 if dtype == torch.bfloat16 else dtype)
    near8(fused.to_float8(x, 0.1, gelu=True), plain.to_float8(x, 0.1, gelu=True), 0.1, dtype)
    texts = [np.zeros(n, np.int32) for n in (200, 1, 64, 7)]
    batch = Packed.over(torch.from_numpy(pack(texts, form(texts), 0)).to(DEVICE), form(texts))
    qkv = random(272, 2304, dtype=dtype)
    near8(*(attend(qkv, 12, batch, 0.01) for attend in (attention.own(), choices.SEQUENCES)), 0.01, dtype)


# The last two: several tiles for each program, and one where what is turned ends inside a tile.
PRODUCTS = [(1, 64, 64), (70, 2304, 768), (300, 4096, 1024), (3000, 2304, 768), (6000, 960, 320)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("rows", "columns", "inside"), PRODUCTS)
def test_every_product_with_what_follows_equals_one_step_after_the_other(
    dtype: torch.dtype, rows: int, columns: int, inside: int
) -> None:
    own = choices.own_products()
    x, one = (
        random(rows, inside, dtype=dtype),
        linear.Linear(random(columns, inside, dtype=dtype) / inside**0.5, random(columns, dtype=dtype)),
    )
    near(own.product(x, one.weight, one.bias), one(x), dtype)
    near(own.activated(x, one), choices.TWO_STEPS(x, one), dtype)
    if columns % 192 == 0:
        positions, turns = torch.arange(rows, device=DEVICE) % 50, random(50, 64, dtype=torch.float32)
        positions = positions.to(torch.int32)
        near(own.turned(x, one, positions, turns), choices.THEN_TURNED(x, one, positions, turns), dtype)
    got = own.product(x, one.weight, one.bias, gelu=True, output_scale=0.02)
    near8(got, plain.to_float8(one(x), 0.02, gelu=True), 0.02, dtype)


def test_a_product_of_8_bits_equals_the_librarys() -> None:
    x, weight = (random(n, 1024, dtype=torch.float16).to(torch.float8_e4m3fn) for n in (300, 4096))
    bias, scale = random(4096, dtype=torch.float16), torch.tensor(0.01, device=DEVICE)
    wanted = torch._scaled_mm(
        x, weight.t(), scale, torch.ones_like(scale), bias=bias, out_dtype=bias.dtype, use_fast_accum=True
    )
    near(choices.own_products().product(x, weight, bias, 0.01), wanted, torch.float16)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("longest", [1, 31, 64, 65, 200, 512])
def test_every_attention_there_is_equals_one_sequence_at_a_time(dtype: torch.dtype, longest: int) -> None:
    texts = [np.zeros(n, np.int32) for n in (longest, 1, longest // 2 + 1, 7)]
    room = form(texts, 64)
    batch = Packed.over(torch.from_numpy(pack(texts, room, 0)).to(DEVICE), room)
    qkv = random(room.tokens, 2304, dtype=dtype)
    wanted = choices.SEQUENCES(qkv, 12, batch)
    tried = 0
    for find in attention.ways(choices.fused()).values():
        try:
            attend = find()
        except (ImportError, AttributeError):
            continue
        near(attend(qkv, 12, batch), wanted, dtype)
        tried += 1
    assert tried >= 3, "own, varlen and aten are all there in torch 2.11"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("tokens", [1, 5, 300, 1024, 2000])
def test_every_way_through_the_experts_equals_one_expert_at_a_time(dtype: torch.dtype, tokens: int) -> None:
    x, router = random(tokens, 768, dtype=dtype), random(8, 768, dtype=torch.float32) * 0.05
    up, down = (random(8, 3072, 768, dtype=dtype) * 0.03 for _ in range(2))
    routed = routing.route(x, router, 2)
    wanted = routing.one_by_one(x, routed, up, down)
    for find in choices.expert_ways(dtype).values():
        route, experts = find()
        mine = route(x, router, 2)
        torch.testing.assert_close(mine.experts.long(), routed.experts)
        torch.testing.assert_close(mine.weights, routed.weights, rtol=1e-5, atol=1e-6)
        near(experts(x, mine, up, down), wanted, dtype)


def test_routing_all_tokens_to_one_pair_of_experts_works() -> None:
    x = random(500, 768, dtype=torch.float16).abs()
    router = torch.zeros(8, 768, device=DEVICE)
    router[5], router[2] = 0.02, 0.01
    route, experts = choices.own_experts()
    mine = route(x, router, 2)
    assert mine.totals.tolist() == [0, 0, 500, 0, 0, 500, 0, 0]
    up, down = (random(8, 3072, 768, dtype=torch.float16) * 0.03 for _ in range(2))
    wanted = routing.one_by_one(x, routing.route(x, router, 2), up, down)
    near(experts(x, mine, up, down), wanted, torch.float16)
