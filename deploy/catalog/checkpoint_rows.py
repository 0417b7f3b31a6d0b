"""The form of a row of the catalog of checkpoints, and of the numbers that rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, cast

from deploy.spec.sources import Checkpoint  # importing deploy.spec would be a cycle: its Server reads the catalog


@dataclass(frozen=True, kw_only=True)
class KnownCheckpoint:
    """A row; `dimensions` is the length of an embedder's vectors, `max_tokens` an encoder's training length.

    Parsers are named as in vLLM (its pages on tool calling and reasoning outputs, read 2026-11-23); "" without a
    parser.
    """

    name: str
    shape: Checkpoint
    repository: str
    revision: str
    published_bytes: int
    dimensions: int = 0
    least_dimensions: int = 0
    """Fewest values of a shortened vector (Matryoshka): all if the model was not trained for fewer, and 0 if that is
    not known."""
    max_tokens: int = 0
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Prefixes that an embedder was trained with, by task, if its architecture does not define them."""
    kind: str = ""
    """`embedder` or `reranker`, for an architecture that LLMs have too."""
    gated: bool = False
    tool_parser: str = ""
    reasoning_parser: str = ""


class Shape(TypedDict):
    """Numbers of a checkpoint that several rows share."""

    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int


def shape(*numbers: int) -> Shape:
    """The numbers by name; their order is parameters, layers, hidden, heads, kv_heads, head_dim, intermediate,
    vocabulary, positions."""
    return cast(Shape, dict(zip(Shape.__annotations__, numbers, strict=True)))
