"""A family of networks as the rest of the package sees it, and the register in which each family enters itself.

A network's module reads its own config.json: a function under `embeds` or `reranks` that takes the directory, the
config and the architecture's name, and returns a Family. `families` imports those modules; nothing else names them.
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
    """A trunk and, for a reranker, its head, which calls the trunk for as much as it reads."""

    trunk: Any
    head: Callable[[Any, Packed], Tensor] | None = None

    def __call__(self, batch: Packed) -> Tensor:
        """Logits of the sequences, float32 [sequences]; without a head the hidden states, [tokens, hidden]."""
        return self.trunk(batch) if self.head is None else self.head(self.trunk, batch)


@dataclass(frozen=True)
class Template:
    """The words around a query and a passage of a reranker that reads them as one text."""

    before: str
    text: str
    """With {query} and {passage}; cut at its end if it is too long."""
    after: str


@dataclass(frozen=True)
class Family:
    """A network not yet loaded, and what its checkpoint settles for the code around it."""

    build: Callable[[Weights, Kernels], Network]
    """The network; takes the weights as it goes."""
    shapes: Callable[[], Shapes]
    """Names and shapes of every tensor of its checkpoint."""
    hidden: int
    vocabulary: int
    position_limit: int
    """Most tokens a sequence can have, special tokens included."""
    padding_id: int
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Task name to the words put before a text; empty where the family was trained without."""
    float32: str = r"(?!)"
    """Pattern of the tensors that stay float32 whatever the network computes in."""
    mixture: bool = False
    """True if some of its layers have experts."""
    mixes: bool = False
    """True if its attention is causal, has windows, or shares keys and values among heads: `Kernels.mix`."""
    halves: bool = True
    """True if float16 holds all its states."""
    reads_lengths: bool = False
    """True if a pass reads its lengths back to the host, so that no CUDA graph holds it."""
    pooling: str = "mean"
    """Of an embedder whose checkpoint says nothing of it."""
    template: Template | None = None
    """Of a reranker that reads a pair as one text."""
    counted_from: int = 0
    """Position of a sequence's first token."""
    uncounted: int = -1
    """A token that takes no position when it stands inside a text; none by default."""
    second_rows: int = 0
    """Added to the positions of a pair's second text, where the network tells it apart; 0 where it does not."""
    longest_first: bool = False
    """A pair that is too long loses tokens of its longer text first (transformers), not of the passage alone."""


Reader = Callable[[Path, dict[str, Any], str], Family]
EMBEDDERS: dict[str, Reader] = {}
"""The reader of each architecture of embedders."""
RERANKERS: dict[str, Reader] = {}
"""The reader of each architecture of rerankers."""


def embeds(*architectures: str) -> Callable[[Reader], Reader]:
    """A decorator that enters a reader for `architectures` of embedders."""
    return _entered(EMBEDDERS, architectures)


def reranks(*architectures: str) -> Callable[[Reader], Reader]:
    """A decorator that enters a reader for `architectures` of rerankers."""
    return _entered(RERANKERS, architectures)


def _entered(register: dict[str, Reader], architectures: tuple[str, ...]) -> Callable[[Reader], Reader]:
    def enter(reader: Reader) -> Reader:
        register.update(dict.fromkeys(architectures, reader))
        return reader

    return enter


def must_be(directory: Path, config: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Checks that every key of `fixed` has that value in `config`.

    Raises: CheckpointError for a key with another value.
    """
    for key, wanted in fixed.items():
        if (config[key] or None) != (wanted or None):  # null, false and 0 all mean "without"
            raise CheckpointError(f"{directory}/config.json: {key} is {config[key]!r}; only {wanted!r} is served")
