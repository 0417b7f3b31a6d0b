"""The plan's note on 8-bit products of an embedder: gain, cost, and the date and machine of the measurement."""

from __future__ import annotations

from dataclasses import replace

from deploy.spec import Encoder
from tests.unit.samples import EMBEDDER, RERANKER, main, plan


def notes(model: Encoder) -> list[str]:
    """The plan's notes about 8-bit products, with `model` served alone."""
    return [note for note in plan(**main(model)).warnings if "fp8" in note]


def test_an_embedder_with_8_bit_products_is_noted_with_gain_cost_machine_and_date() -> None:
    """The note is compared word for word, because an operator decides by it."""
    assert notes(replace(EMBEDDER, products="fp8")) == [
        f'{EMBEDDER.name}: products="fp8" is faster where the GPU is the limit: 17,672 instead of 14,813 docs/s (128 '
        "tokens, 32 texts a request, 16 clients). Where the host's CPU is the limit it gains little and may cost: "
        "7,841 instead of 9,135 docs/s on one host and 9,462 instead of 9,576 on another (192 tokens, 64 texts a "
        "request, 12 clients); 6,313 instead of 6,981 and 6,835 instead of 6,458 (log-normal lengths of "
        "200 tokens in the mean, 8 texts a request, 24 clients). Measured with nomic-embed-text-v2-moe through Triton "
        "2.51, H100 80GB HBM3 hosts of 16 cores, 2026-11-22. Measure your own load both ways, or leave products out"
    ]


def test_products_that_are_unset_or_always_faster_get_no_note() -> None:
    """The cases are a reranker, and an embedder in its network's own type."""
    assert notes(replace(RERANKER, products="fp8")) == notes(EMBEDDER) == []
