"""Each step of the networks on a CUDA device, in every form for CUDA, against the plain form."""

import numpy as np
import pytest
import torch

from encoders import attention, choices, gated_steps, linear, plain, routing
from encoders.packing import Packed, form, pack

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device that torch can see"),
]

DEVICE = "cuda:0"
HALVES = [torch.float16, torch.bfloat16]


def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator(DEVICE).manual_seed(len(shape)), device=DEVICE).to(dtype)


def near(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    step = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(got.float(), wanted.float(), rtol=step, atol=step)


def near8(got: torch.Tensor, wanted: torch.Tensor, scale: float, dtype: torch.dtype) -> None:
    """Returns True for values equal in the earlier format or neighbours, at most 1/8 apart; clips large values."""
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
    copies = [qkv.clone(), qkv.clone()]
    for copy, steps in zip(copies, (fused, plain), strict=True):
        steps.rotate_(copy, positions, turns)
    near(*copies, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_8_bit_step_equals_its_plain_form(dtype: torch.dtype) -> None:
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
    batch = Packed.of_row(torch.from_numpy(pack(texts, form(texts), 0)).to(DEVICE), form(texts))
    qkv = random(272, 2304, dtype=dtype)
    near8(*(attend(qkv, 12, batch, 0.01) for attend in (attention.own(), choices.SEQUENCES)), 0.01, dtype)


# The last two shapes need several tiles per program, and a last tile that is partly filled.
PRODUCTS = [(1, 64, 64), (70, 2304, 768), (300, 4096, 1024), (3000, 2304, 768), (6000, 960, 320)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("rows", "columns", "inside"), PRODUCTS)
def test_a_fused_product_equals_its_separate_steps(dtype: torch.dtype, rows: int, columns: int, inside: int) -> None:
    own = choices.own_products()
    x, layer = (
        random(rows, inside, dtype=dtype),
        linear.Linear(random(columns, inside, dtype=dtype) / inside**0.5, random(columns, dtype=dtype)),
    )
    near(own.product(x, layer.weight, layer.bias), layer(x), dtype)
    near(own.activated(x, layer), choices.TWO_STEPS(x, layer), dtype)
    if columns % 192 == 0:
        positions, turns = torch.arange(rows, device=DEVICE) % 50, random(50, 64, dtype=torch.float32)
        positions = positions.to(torch.int32)
        near(own.rotated(x, layer, positions, turns), choices.THEN_ROTATED(x, layer, positions, turns), dtype)
    got = own.product(x, layer.weight, layer.bias, gelu=True, output_scale=0.02)
    near8(got, plain.to_float8(layer(x), 0.02, gelu=True), 0.02, dtype)


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
    batch = Packed.of_row(torch.from_numpy(pack(texts, room, 0)).to(DEVICE), room)
    qkv = random(room.tokens, 2304, dtype=dtype)
    wanted = choices.SEQUENCES(qkv, 12, batch)
    tried = 0
    for find in attention.implementations(choices.fused()).values():
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
    for find in choices.expert_implementations(dtype).values():
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


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_every_fused_step_of_gated_networks_equals_the_plain_one(dtype: torch.dtype) -> None:
    fused = choices.fused_gated()
    x, y = random(70, 1152, dtype=torch.float32), random(70, 1152, dtype=dtype)
    weights = gated_steps.Scale(x[0], 1e-6, False), gated_steps.Scale(x[1], 1e-6, True)
    for after, norm in ((None, weights[0]), (weights[0], weights[1]), (None, None)):
        for kind in {dtype, torch.float32}:
            got, wanted = (steps.add_scaled(y, x, after, norm, kind) for steps in (fused, gated_steps))
            near(got.narrow, wanted.narrow, kind)
            near(got.wide, wanted.wide, torch.float32)
    for activation in ("silu", "gelu", "gelu_pytorch_tanh"):
        near(fused.gate(y, activation), gated_steps.gate(y, activation), dtype)


@pytest.mark.parametrize("heads", [(16, 8, 128), (3, 1, 256), (12, 12, 64)])
@pytest.mark.parametrize("dtype", HALVES)
def test_queries_and_keys_turn_as_in_the_plain_step_and_values_stay(
    heads: tuple[int, int, int], dtype: torch.dtype
) -> None:
    queries, pairs, head = heads
    qkv, turns = random(70, queries + 2 * pairs, head, dtype=dtype), random(40, head, dtype=torch.float32)
    positions = torch.arange(70, device=DEVICE, dtype=torch.int32) % 40
    norms = tuple(gated_steps.Scale(random(head, dtype=torch.float32), 1e-6, False) for _ in range(2))
    for scales in (None, norms):
        wanted = gated_steps.turn(qkv.clone(), positions, turns, queries, scales)
        got = choices.fused_gated().turn(qkv.clone(), positions, turns, queries, scales)
        near(got, wanted, dtype)
        assert torch.equal(got[:, queries + pairs :], qkv[:, queries + pairs :])
