"""Gain and cost of an embedder's 8-bit products, as a notice of the plan. `validation.models` has their refusals."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.spec import Embedder, Model

GAIN = "17,672 instead of 14,813 docs/s (128 tokens, 32 texts a request, 16 clients)"
COSTS = (
    "7,841 instead of 9,135 docs/s on one host and 9,462 instead of 9,576 on another (192 tokens, 64 texts a request, "
    "12 clients)",
    "6,313 instead of 6,981 and 6,835 instead of 6,458 (log-normal lengths of 200 tokens in the mean, 8 texts a "
    "request, 24 clients)",
)
MEASURED = "nomic-embed-text-v2-moe through Triton 2.51, H100 80GB HBM3 hosts of 16 cores, 2026-11-22"
"""Each pair of figures was read in one call. On the first host five such loads of five were slower with 8-bit products;
the second host's are medians of five runs: python -m benchmarks.encoders --cases embed-192 embed-mixed --fp8."""


def fp8_gains_and_costs(model: Model) -> Iterator[str]:
    """The note on an embedder with `products="fp8"`: faster if the GPU is the limit, often slower if the host is.

    None for a reranker: bge-reranker-large has 24 layers and no experts, and was faster in every load measured.
    """
    if isinstance(model, Embedder) and model.products == "fp8":
        yield (
            f'{model.name}: products="fp8" is faster where the GPU is the limit: {GAIN}. '
            f"Where the host's CPU is the limit it gains little and may cost: {'; '.join(COSTS)}. Measured with "
            f"{MEASURED}. Measure your own load both ways, or leave products out"
        )
