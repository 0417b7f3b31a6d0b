"""8-bit products: their loss of exactness, their refusals, and the inputs of the gate."""

from pathlib import Path

import numpy as np
import pytest
import torch

from encoders import families, float8, loading, plain
from encoders.choices import Kernels
from encoders.errors import CheckpointError
from encoders.linear import Linear
from encoders.settings import Settings


@pytest.fixture
def half() -> Linear:
    """Returns a projection in bfloat16."""
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(64, 48, generator=generator) / 7, torch.randn(64, generator=generator)
    return Linear(weight.to(torch.bfloat16), bias.to(torch.bfloat16))


def test_a_projection_in_8_bits_is_within_a_few_percent(half: Linear) -> None:
    x = torch.randn(32, 48, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    narrow = float8.Float8Linear(half, float(x.abs().max()), Kernels())
    error = (narrow(x).float() - half(x).float()).norm() / half(x).float().norm()
    assert 0.001 < error < 0.05
    torch.testing.assert_close(narrow.bare(x) + half.bias, narrow(x), rtol=0.02, atol=0.02)


def test_values_beyond_the_measured_range_are_clipped_to_finite_numbers() -> None:
    seen = plain.to_float8(torch.tensor([1e6, -1e6, 0.5]), scale=0.01)
    assert seen.float().tolist() == [448.0, -448.0, 48.0]


def test_every_dense_projection_is_narrowed_and_experts_and_router_are_not(
    nomic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(float8, "GATE", 0.1)  # these weights are wider than trained ones
    trunk, moved = narrowed(nomic)
    assert 0 < moved < 0.1
    assert {type(layer.qkv) for layer in trunk.layers} == {float8.Float8Linear}
    assert type(trunk.layers[0].mlp.down) is float8.Float8Linear
    assert {trunk.layers[1].mlp.up.dtype, trunk.layers[1].mlp.down.dtype} == {torch.bfloat16}
    assert trunk.layers[0].mlp.up.output_scale == trunk.layers[0].mlp.down.input_scale


def narrowed(directory: Path) -> tuple:
    family = families.choose(directory, families.EMBEDDERS)
    kernels = Kernels(dtype=torch.bfloat16)
    network = families.load(family, directory, kernels)
    moved = float8.narrow(network.trunk, kernels, lambda: loading.calibration_states(network, kernels, family, 64))
    return network.trunk, moved


def test_products_that_move_states_too_far_are_refused(nomic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float8, "GATE", 1e-7)
    with pytest.raises(CheckpointError, match=r"products is fp8; that moves states by 1 - cosine 0\.\d+, above 1e-07"):
        narrowed(nomic)


def test_states_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        layers = ()

    states = iter([np.ones((2, 4)), np.full((2, 4), np.nan)])
    with pytest.raises(CheckpointError, match="products is fp8"):
        float8.narrow(Empty(), Kernels(), lambda: next(states))


@pytest.mark.parametrize("changed", [{"device": "cpu"}, {"device": "cuda:0", "dtype": "fp32"}])
def test_8_bit_products_are_refused_where_there_are_none(changed: dict[str, str]) -> None:
    with pytest.raises(CheckpointError, match="products is `fp8`; that needs a CUDA device, and dtype fp16 or bf16"):
        Settings.of({"model_path": "/w", "products": "fp8"} | changed)
