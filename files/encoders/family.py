"""The interface of a family of networks, and the registry of all families.

A network's module reads its own config.json: a function under `embeds` or `reranks` that takes the directory, the
config and the architecture's name, and returns a Family. Only `families` imports those modules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from .choices import Kernels
from .errors import CheckpointError
from .packing import Packed
from .weights import Shapes, Weights


@dataclass(frozen=True)
class Network:
    """A trunk; for a reranker a head, which calls the trunk for the states that it reads."""

    trunk: Any
    head: Callable[[Any, Packed], Tensor] | None = None

    def __call__(self, batch: Packed) -> Tensor:
        """Logits of the sequences, float32 [sequences]; without a head the hidden states, [tokens, hidden]."""
        return self.trunk(batch) if self.head is None else self.head(self.trunk, batch)


@dataclass(frozen=True)
class Template:
    """The prompt around query and passage, for a reranker that reads both as one text."""

    before: str
    text: str
    """The prompt with {query} and {passage}; a too long one is cut at its end."""
    after: str


@dataclass(frozen=True)
class Family:
    """A network before loading, and the properties of its checkpoint that other modules need."""

    build: Callable[[Weights, Kernels], Network]
    """Builds the network, and takes the weights out of `Weights`."""
    shapes: Callable[[], Shapes]
    """Names and shapes of every tensor of its checkpoint."""
    hidden: int
    vocabulary: int
    position_limit: int
    """Largest number of tokens of a sequence, including special tokens."""
    padding_id: int
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """The prefix of a text by task; empty for families trained without prefixes."""
    float32: str = r"(?!)"
    """Pattern of the names of tensors that always stay float32."""
    mixture: bool = False
    """True if some of its layers have experts."""
    float32_residuals: bool = False
    """True if its attention is causal, has windows, or shares keys and values among heads: `Kernels.mix`."""
    fits_float16: bool = True
    """True if float16 holds all its states."""
    reads_lengths: bool = False
    """True if a pass reads its lengths back to the host, and so cannot be captured in a CUDA graph."""
    pooling: str = "mean"
    """Default pooling of an embedder whose checkpoint declares none."""
    template: Template | None = None
    """The prompt of a reranker that reads a pair as one text."""
    counted_from: int = 0
    """Position of a sequence's first token."""
    uncounted: int = -1
    """A token that takes no position inside a text; none by default."""
    second_rows: int = 0
    """Offset added to the positions of a pair's second text; 0 for networks without segments."""
    longest_first: bool = False
    """True if a too long pair loses tokens of its longer text first (as in transformers); False: of the passage
    only."""


Reader = Callable[[Path, dict[str, Any], str], Family]
EMBEDDERS: dict[str, Reader] = {}
"""The reader of each architecture of embedders."""
RERANKERS: dict[str, Reader] = {}
"""The reader of each architecture of rerankers."""


def embeds(*architectures: str) -> Callable[[Reader], Reader]:
    """Decorator that registers a reader for `architectures` of embedders."""
    return _entered(EMBEDDERS, architectures)


def reranks(*architectures: str) -> Callable[[Reader], Reader]:
    """Decorator that registers a reader for `architectures` of rerankers."""
    return _entered(RERANKERS, architectures)


def _entered(register: dict[str, Reader], architectures: tuple[str, ...]) -> Callable[[Reader], Reader]:
    def enter(reader: Reader) -> Reader:
        register.update(dict.fromkeys(architectures, reader))
        return reader

    return enter


def must_be(directory: Path, config: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Checks that `config` has the value of `fixed` for each of its keys.

    Raises: CheckpointError for a key with another value.
    """
    for key, wanted in fixed.items():
        if (config[key] or None) != (wanted or None):  # null, false and 0 all mean "without"
            raise CheckpointError(f"{directory}/config.json: {key} is {config[key]!r}; only {wanted!r} is served")
