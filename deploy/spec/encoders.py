"""Embedders and rerankers, as an operator declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from deploy.spec.sources import Checkpoint, Weights, completed

Path = Literal["auto", "pytorch", "engine", "python"]


DType = Literal["float16", "bfloat16", "float32"]


@dataclass(frozen=True)
class Encoder:
    """The common settings of embedder and reranker; `source` is a hub name or a directory, as in `LLM`.

    `device="cpu"` serves without a GPU (small models, development).

    `products="fp8"` computes the dense layers in 8 bits, less exactly: bge-reranker-large ran 32 to 55 % faster on an
    H100. nomic-embed-text-v2-moe ran 14 to 19 % faster in large passes, and up to 14 % slower if the host's CPU is the
    limit (figures: README, checks.products). The server compares pooled states with the 16-bit ones at its start and
    refuses the model above 1 - cosine 0.01; measure the effect on your own ranking. Experts, router and head are
    computed in `dtype`.

    Up to `streams` passes of `max_batch_tokens` run in parallel on a GPU while full ones wait, each with its own
    workspace. Two streams made a saturated bge-reranker-large 4 % faster, but nomic-embed-text-v2-moe no faster through
    Triton (H100, 2026-11-21), so a reranker has two.

    `max_queue_delay_microseconds` delays every request, on an idle GPU too, so that others can join its batch. Without
    it requests are gathered for half a millisecond while others are being computed.
    """

    source: str = ""
    _: KW_ONLY
    name: str = ""
    checkpoint: str | Checkpoint = ""
    weights: Weights = Weights()
    path: Path = "auto"
    dtype: DType = "float16"
    products: Literal["dtype", "fp8"] = "dtype"
    device: Literal["gpu", "cpu"] = "gpu"
    max_tokens: int = 512
    max_batch_tokens: int = 16384
    streams: int = 1
    max_items: int = 1024
    max_batch_size: int = 256
    max_queue_delay_microseconds: int = 0
    max_queue_size: int = 1024
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        completed(self)


@dataclass(frozen=True)
class Embedder(Encoder):
    """A model that turns texts into vectors. A text gets the prefix of `default_task` if its request names no task.

    `prefixes` are the words before the texts of a task in the model's training, from its model card:
    `{"search_query": "query: ", "search_document": "passage: "}`. The catalog's checkpoints and NomicBert have theirs.
    Prompts that a repository of sentence-transformers publishes are taken from it.
    """

    _: KW_ONLY
    default_task: str = ""
    prefixes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reranker(Encoder):
    """A model that scores passages by their relevance to a query."""

    _: KW_ONLY
    streams: int = 2
