"""Pre-norm networks with gated feed-forward and rotary positions, over packed sequences.

One network for three families, which `modern`, `qwen` and `gemma` read from their config.json. They differ in the
fields of Shape: the tokens that a layer attends to (all, earlier ones, a window on either side), the number of heads
that share keys and values, and the norms. Residual sums are always float32: those of the decoders exceed float16's
range.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .choices import Kernels
from .errors import CheckpointError
from .gated_steps import Scale
from .nomic import rotations
from .packing import Packed, firsts, lasts
from .plain import States
from .weights import Shapes, Weights

FLOAT32 = r"norm\.weight$|^head\.|^classifier\."
"""Pattern of the float32 tensors: norms, and the head of a reranker."""
PICKS = {"first": firsts, "last": lasts}


@dataclass(frozen=True)
class Names:
    """Names of a checkpoint's tensors without `.weight`; those of a layer without its prefix. Empty: the network lacks
    the step."""

    word: str
    layer: str
    """Prefix of a layer's tensors, with {} for the number of the layer."""
    qkv: tuple[str, ...]
    out: str
    before: tuple[str, str]
    """The norms before attention and before the feed-forward."""
    gates: tuple[str, ...]
    """The gate and the projection that it scales, or both in one tensor."""
    down: str
    final: str
    embedded: str = ""
    after: tuple[str, str] = ("", "")
    heads: tuple[str, str] = ("", "")
    """The norms of each head of queries and of keys."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the network, as config.json declares them."""

    names: Names
    vocabulary: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    positions: int
    epsilon: float
    bases: tuple[float, ...]
    """The rotary base of each layer."""
    windows: tuple[int, ...]
    """Tokens that each layer attends to on either side; 0: all."""
    activation: str
    causal: bool = False
    centred: bool = False
    """True: LayerNorm; False: RMSNorm."""
    shifted: bool = False
    """True if norms scale by 1 + weight."""
    scale: float = 1.0
    """Factor of the rows of the token table."""
    first_norm: bool = True
    """True if the first layer has a norm before attention."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.windows)


def shapes(s: Shape) -> Shapes:
    """Name and shape of every tensor of the checkpoint's trunk."""
    n, h = s.names, s.hidden
    tensors: Shapes = {n.word: (s.vocabulary, h), n.final: (h,)}
    tensors |= {n.embedded: (h,)} if n.embedded else {}
    rows = [s.heads * s.head, s.kv_heads * s.head, s.kv_heads * s.head]
    for index in range(s.layers):
        layer: Shapes = dict(zip(n.qkv, ((count, h) for count in rows), strict=False))
        if len(n.qkv) == 1:
            layer[n.qkv[0]] = (sum(rows), h)
        layer |= {n.out: (h, rows[0]), n.down: (h, s.inner)}
        layer |= {name: (2 * s.inner // len(n.gates), h) for name in n.gates}
        layer |= {name: (h,) for name in (*n.before, *n.after) if name}
        layer |= {name: (s.head,) for name in n.heads if name}
        if index == 0 and not s.first_norm:
            del layer[n.before[0]]
        tensors |= {f"{n.layer.format(index)}.{name}": size for name, size in layer.items()}
    return {f"{name}.weight": size for name, size in tensors.items()}


class Trunk:
    """Packed token ids to hidden states [tokens, hidden], float32."""

    def __init__(self, shape: Shape, weights: Weights, kernels: Kernels) -> None:
        names = shape.names
        self.scale = shape.scale
        self.word = weights[f"{names.word}.weight"]
        self.embedded = norm(shape, weights, names.embedded)
        head = shape.head
        turns = {base: rotations(shape.positions, head, base).to(kernels.device) for base in sorted(set(shape.bases))}
        before = [f"{names.layer.format(index)}.{names.before[0]}" for index in range(shape.layers)]
        before[0] = before[0] if shape.first_norm else ""
        norms = [norm(shape, weights, name) for name in (*before, names.final)]
        self.first, self.kind = norms[0], self.word.dtype
        self.layers = [
            Layer(shape, weights, index, turns[shape.bases[index]], norms[index + 1], kernels)
            for index in range(shape.layers)
        ]

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [tokens, hidden]."""
        x = self.word[batch.ids].float() * self.scale
        wide = self.embedded(x) if self.embedded else x
        states = States((self.first(wide) if self.first else wide).to(self.kind), wide)
        for layer in self.layers:
            states = layer(states, batch)
        return states.narrow


class Layer:
    """Attention and a gated feed-forward, each after a norm and with residual addition; then the next layer's norm."""

    def __init__(
        self, shape: Shape, weights: Weights, index: int, turns: Tensor, following: Scale | None, kernels: Kernels
    ) -> None:
        names, at = shape.names, f"{shape.names.layer.format(index)}."
        self.shape, self.turns, self.kernels, self.window = shape, turns, kernels, shape.windows[index]
        self.qkv = weights.linear(*(at + name for name in names.qkv)).weight
        self.out, self.down = (weights.linear(at + name).weight for name in (names.out, names.down))
        self.up = weights.linear(*(at + name for name in names.gates)).weight
        self.between, self.after, self.last = (
            norm(shape, weights, name and at + name) for name in (names.before[1], *names.after)
        )
        first, second = (norm(shape, weights, name and at + name) for name in names.heads)
        self.heads = (first, second) if first and second else None
        self.following = following
        self.kind = torch.float32 if index == shape.layers - 1 else self.out.dtype
        """Dtype of the next norm's output: float32 after the last layer."""

    def __call__(self, states: States, batch: Packed) -> States:
        """The next states: float32 [tokens, hidden], and their norm, to the same."""
        steps, x = self.kernels.gated, F.linear(self.mixed(states.narrow, batch), self.out)
        states = steps.add_scaled(x, states.wide, self.after, self.between, self.out.dtype)
        inner = steps.gate(F.linear(states.narrow, self.up), self.shape.activation)
        return steps.add_scaled(F.linear(inner, self.down), states.wide, self.last, self.following, self.kind)

    def mixed(self, x: Tensor, batch: Packed) -> Tensor:
        """The states after attention: [tokens, hidden] to [tokens, heads x head]."""
        s = self.shape
        qkv = F.linear(x, self.qkv).view(len(x), -1, s.head)
        rotated = self.kernels.gated.turn(qkv, batch.positions, self.turns, s.heads, self.heads)
        query, key, value = rotated.split((s.heads, s.kv_heads, s.kv_heads), dim=1)
        return self.kernels.mix(query, key, value, batch, s.causal, self.window).flatten(1)


def norm(shape: Shape, weights: Weights, name: str) -> Scale | None:
    """The norm `name`; None for an empty name.

    Raises: KeyError for an unknown name.
    """
    if not name:
        return None
    weight = weights[f"{name}.weight"].float()
    return Scale(weight + 1 if shape.shifted else weight, shape.epsilon, shape.centred)


def bases(directory: Path, config: dict[str, Any], kinds: tuple[str, ...], legacy: dict[str, str]) -> tuple[float, ...]:
    """The rotary base of each layer, by its kind of attention; `legacy` has the key of older files for each kind.

    Raises: CheckpointError for scaled positions, KeyError for a missing base.
    """
    declared = config.get("rope_parameters") or {}
    by_kind = {kind: declared.get(kind, declared) for kind in set(kinds)}
    scaled = [
        row
        for row in (*by_kind.values(), config.get("rope_scaling") or {})
        if row.get("rope_type", "default") != "default" or row.get("type")
    ]
    if scaled:
        raise CheckpointError(
            f"{directory}/config.json: positions are scaled, {scaled[0]}; only unscaled ones are served"
        )
    return tuple(float(by_kind[kind]["rope_theta"] if by_kind[kind] else config[legacy[kind]]) for kind in kinds)
