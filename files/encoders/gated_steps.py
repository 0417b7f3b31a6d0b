"""The steps between the matrix products of gated networks in plain torch, correct on every device.

`gated_kernels` has the same functions as one kernel each; a trial at start compares both.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from .plain import States


@dataclass(frozen=True)
class Scale:
    """A norm over the last dimension, with float32 weights."""

    weight: Tensor
    epsilon: float
    centred: bool
    """True: LayerNorm; False: RMSNorm."""

    def __call__(self, x: Tensor) -> Tensor:
        """The norm in float32: any shape to the same."""
        x = x.float()
        if self.centred:
            return F.layer_norm(x, x.shape[-1:], self.weight, None, self.epsilon)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


class Steps(Protocol):
    """The functions that this module and `gated_kernels` both offer."""

    def add_scaled(
        self, y: Tensor, x: Tensor, after: Scale | None, norm: Scale | None, kind: torch.dtype
    ) -> States: ...

    def turn(
        self, qkv: Tensor, positions: Tensor, turns: Tensor, queries: int, norms: tuple[Scale, Scale] | None
    ) -> Tensor: ...

    def gate(self, x: Tensor, activation: str) -> Tensor: ...


def add_scaled(y: Tensor, x: Tensor, after: Scale | None, norm: Scale | None, kind: torch.dtype) -> States:
    """The sum of `x` and of `y` after the norm `after`: `wide` is the float32 sum, `narrow` its norm in dtype `kind`.

    Shape: y [tokens, hidden], x float32 [tokens, hidden], to [tokens, hidden].
    """
    wide = x + (after(y) if after else y)
    return States((norm(wide) if norm else wide).to(kind), wide)


def turn(qkv: Tensor, positions: Tensor, turns: Tensor, queries: int, norms: tuple[Scale, Scale] | None) -> Tensor:
    """Queries and keys after their norms, with value i of each head rotated with value i + head / 2; values unchanged.

    Shape: qkv [tokens, heads, head] to the same, `queries` heads first, then as many keys as values; positions
    [tokens]; turns float32 [positions, head]: cosines, then sines. `qkv` may be overwritten to save memory.
    """
    pairs = (qkv.shape[1] - queries) // 2
    parts = qkv.split((queries, pairs, pairs), dim=1)
    cosine, sine = turns[positions][:, None, :].chunk(2, dim=-1)
    rotated = []
    for index, part in enumerate(parts[:2]):
        left, right = (norms[index](part) if norms else part.float()).chunk(2, dim=-1)
        rotated.append(torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1).to(qkv.dtype))
    return torch.cat((*rotated, parts[2]), dim=1)


def gate(x: Tensor, activation: str) -> Tensor:
    """The second half of each row, scaled by the first after `activation`: [tokens, 2 x inner] to [tokens, inner]."""
    scale, inner = x.chunk(2, dim=1)
    if activation == "silu":
        return F.silu(scale) * inner
    return F.gelu(scale, approximate="tanh" if activation == "gelu_pytorch_tanh" else "none") * inner
