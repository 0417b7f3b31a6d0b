"""The choice of kernels if a name is missing; every choice computes the same values.

The device is `cpu:0`: torch treats it as `cpu`, and `choose` as a device on which every kernel is tried.
"""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from encoders import attention, choices, linear, plain, routing
from encoders.choices import Kernels, choose
from encoders.tokens import Tokenizer
from tests.encoders import checkpoints

HALF = torch.bfloat16
PLAIN = ["steps plain", "attention plain", "products plain", "gelu plain", "experts plain"]


def packed_flash(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, _: Tensor, longest: int, __: int) -> Tensor:
    """Stand-in for the kernel of a flash-attention package."""
    return attention.sequences(q, k, v, starts, longest)


def grouped_mm(a: Tensor, b: Tensor, *, offs: Tensor) -> Tensor:
    """Stand-in for torch's grouped product."""
    parts = torch.tensor_split(a, offs.tolist()[:-1])
    return torch.cat([part @ weight for part, weight in zip(parts, b, strict=True)])


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all fast kernels: the compiler, the packages and the grouped product."""
    for name in ("triton", "flash_attn_interface", "flash_attn", "torch.nn.attention.varlen"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delattr(F, "grouped_mm", raising=False)
    monkeypatch.delattr(torch, "_grouped_mm", raising=False)
    monkeypatch.delattr(torch, "_addmm_activation")


def taken(kernels: Kernels) -> list[str]:
    return [note.split(" (")[0] for note in kernels.notes]


def test_without_fast_kernels_the_plain_ones_are_used_and_reported() -> None:
    kernels = choose("cpu:0", HALF)
    assert taken(kernels) == PLAIN
    assert kernels.silent is False
    assert "own: ModuleNotFoundError; fa3: ModuleNotFoundError; varlen: ModuleNotFoundError" in kernels.notes[1]


def test_float32_takes_no_kernel_that_only_16_bits_have() -> None:
    assert taken(choose("cpu:0", torch.float32)) == PLAIN


@pytest.mark.parametrize(
    ("module", "function", "name"),
    [
        ("flash_attn_interface", "flash_attn_varlen_func", "fa3"),
        ("torch.nn.attention.varlen", "varlen_attn", "varlen"),
        ("flash_attn", "flash_attn_varlen_func", "fa2"),
    ],
)
def test_a_flash_attention_is_taken_where_it_is_found(
    monkeypatch: pytest.MonkeyPatch, module: str, function: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{function: packed_flash}))
    assert f"attention {name}" in taken(choose("cpu:0", HALF))


def test_a_kernel_that_returns_more_than_its_result_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(flash_attn_varlen_func=lambda *inputs: (packed_flash(*inputs), "softmax sums"))
    monkeypatch.setitem(sys.modules, "flash_attn_interface", module)
    assert "attention fa3" in taken(choose("cpu:0", HALF))


def test_a_kernel_that_computes_something_else_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(flash_attn_varlen_func=lambda *inputs: packed_flash(*inputs) * 1.1)
    monkeypatch.setitem(sys.modules, "flash_attn_interface", wrong)
    kernels = choose("cpu:0", HALF)
    assert "attention plain" in taken(kernels) and "fa3 disagrees" in kernels.notes[1]


@pytest.mark.parametrize("where", ["torch.nn.functional.grouped_mm", "torch._grouped_mm"])
def test_the_grouped_product_is_taken_by_either_of_its_names(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(where, grouped_mm, raising=False)
    assert "experts grouped_mm" in taken(choose("cpu:0", HALF))


def test_the_grouped_product_is_left_alone_in_fp16_where_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "grouped_mm", grouped_mm, raising=False)
    assert "experts plain" in taken(choose("cpu:0", torch.float16))


def test_gelu_goes_into_the_product_where_torch_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(bias: Tensor, x: Tensor, weight: Tensor, use_gelu: bool) -> Tensor:
        return F.gelu(torch.addmm(bias, x, weight), approximate="tanh")

    monkeypatch.setattr(torch, "_addmm_activation", product, raising=False)
    assert "gelu in the product" in taken(choose("cpu:0", HALF))


def test_every_way_through_the_experts_gives_the_same() -> None:
    generator = torch.Generator().manual_seed(1)
    x, router = torch.randn(50, 16, generator=generator), torch.randn(8, 16, generator=generator)
    up, down = torch.randn(8, 24, 16, generator=generator), torch.randn(8, 24, 16, generator=generator)
    routed = routing.route(x, router, 2)
    one_by_one = routing.one_by_one(x, routed, up, down)
    torch.testing.assert_close(routing.grouped(grouped_mm)(x, routed, up, down), one_by_one)


def test_both_ways_to_gelu_agree_to_within_the_tanh_forms_error(monkeypatch: pytest.MonkeyPatch) -> None:
    x, layer = torch.randn(9, 16), linear.Linear(torch.randn(24, 16), torch.randn(24))
    run: Callable[..., Tensor] = lambda b, x, w, use_gelu: F.gelu(torch.addmm(b, x, w), approximate="tanh")  # noqa: E731
    monkeypatch.setattr(torch, "_addmm_activation", run, raising=False)
    difference = linear.in_one_product()(x, layer) - linear.in_two_steps(plain.gelu_)(x, layer)
    assert 0 < difference.abs().max() < 1e-3


@pytest.mark.parametrize(("wrong", "note"), [(0.0, "products own"), (100.0, "products plain")])
def test_a_product_that_is_wrong_in_a_late_tile_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, wrong: float, note: str
) -> None:
    def spoiled(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(*inputs: Any) -> Tensor:
            y = way(*inputs)
            y[-128:] += wrong
            return y

        return run

    then_rotated, activated = spoiled(choices.THEN_ROTATED), spoiled(choices.TWO_STEPS)
    own = SimpleNamespace(rotated=then_rotated, activated=activated, product=activated)
    monkeypatch.setattr(choices, "own_products", lambda: own)
    assert note in taken(choose("cpu:0", HALF, mixture=False))


@pytest.mark.parametrize(("rows", "note"), [(1, "experts own"), (128, "experts plain")])
def test_experts_that_are_wrong_in_one_tile_are_passed_over_and_for_one_tie_are_not(
    monkeypatch: pytest.MonkeyPatch, rows: int, note: str
) -> None:
    def experts(*inputs: Any) -> Tensor:
        out = routing.one_by_one(*inputs)
        out[-rows:] += 100.0 * (len(out) > 1000)
        return out

    monkeypatch.setattr(choices, "own_experts", lambda: (routing.route, experts))
    assert note in taken(choose("cpu:0", HALF))


@pytest.mark.parametrize(("rows", "taken"), [(1, "few"), (linear.FEW_ROWS, "few"), (linear.FEW_ROWS + 1, "many")])
def test_few_rows_and_many_rows_use_different_kernels(rows: int, taken: str) -> None:
    layer = linear.Linear(torch.ones(1, 1), torch.zeros(1))
    products = (lambda x, linear: "few", lambda x, linear: "many")
    assert linear.by_rows(*products)(torch.zeros(rows, 1), layer) == taken


def test_a_tokenizer_without_the_fast_batch_call_uses_the_slow_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.unigram().save(str(tmp_path / "tokenizer.json"))
    real = Tokenizer(tmp_path, 200)
    monkeypatch.setattr("encoders.tokens.BATCH", ("no_such_name", "encode_batch"))
    old = Tokenizer(tmp_path, 200)
    assert [ids.tolist() for ids in old.contents(["the cat", "sea"])] == [
        ids.tolist() for ids in real.contents(["the cat", "sea"])
    ]


@pytest.mark.parametrize("words", [0, 3])
def test_remembered_words_change_no_ids(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, words: int) -> None:
    checkpoints.unigram().save(str(tmp_path / "tokenizer.json"))
    texts = ["the cat", "the sea", "sea the cat", "the cat"]
    wanted = [ids.tolist() for ids in Tokenizer(tmp_path, 200).contents(texts)]
    monkeypatch.setattr("encoders.tokens.REMEMBERED_WORDS", words)
    few = Tokenizer(tmp_path, 200)
    assert [[ids.tolist() for ids in few.contents(texts)] for _ in range(2)] == [wanted, wanted]


def test_nothing_is_tried_on_a_plain_cpu() -> None:
    assert choices.choose("cpu", torch.float32).notes == ["plain steps"]
