"""The steps between matrix products in plain torch: correct on every device, and the reference for `fused.py`.

Everything is packed: sequences lie one after another in [tokens, hidden], and sequence i is rows starts[i] to
starts[i + 1]. No padding exists, so none can leak into a result.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Norm(NamedTuple):
    """A LayerNorm's weights, [hidden] each."""

    weight: Tensor
    bias: Tensor
    epsilon: float
    output_scale: float = 0.0
    """Scale of its e4m3 output for an 8-bit product; 0: the output has the tensors' own dtype."""


class States(NamedTuple):
    """A row for each token: `narrow` is the input of products, `wide` that of sums (float32 for bfloat16 networks).

    Both are the same tensor, except in bfloat16 networks and with 8-bit products. bfloat16 keeps 8 bits of each state,
    and the rounding errors of 24 layers add up. With float32 sums, the vectors of a full-size NomicBert are a third
    nearer to a reference with the same routing ties (1 - cosine without the mean 1.35e-4 to 0.92e-4, the worst of 24
    texts, CPU, random weights, 2026-11-21). float16 keeps 11 bits, which suffice.
    """

    narrow: Tensor
    wide: Tensor

    def rows(self, index: Tensor) -> "States":
        """The `wide` rows at `index` [rows]: [rows, hidden]."""
        wide = self.wide[index]
        return States(wide, wide)


class Steps(Protocol):
    """The steps that both this module and `fused` implement; the functions here document the results."""

    def embed(
        self, ids: Tensor, positions: Tensor, word: Tensor, place: Tensor | None, segment: Tensor, norm: Norm
    ) -> States: ...

    def add_norm(self, y: Tensor, bias: Tensor, x: Tensor, norm: Norm) -> States: ...

    def gelu_(self, x: Tensor) -> Tensor: ...

    def rotate_(self, qkv: Tensor, positions: Tensor, turns: Tensor) -> None: ...

    def mean(self, x: Tensor, starts: Tensor) -> Tensor: ...

    def to_float8(self, x: Tensor, scale: float, gelu: bool = False) -> Tensor: ...


def embed(ids: Tensor, positions: Tensor, word: Tensor, place: Tensor | None, segment: Tensor, norm: Norm) -> States:
    """Sum of the token, position (if there is a table) and segment rows of every token, normalised.

    Shape: ids and positions [tokens], word and place [rows, hidden], segment [hidden], to [tokens, hidden].
    """
    x = word[ids].float() + segment.float()
    if place is not None:
        x = x + place[positions].float()
    return _states(_normalised(x, norm), word.dtype, norm)


def add_norm(y: Tensor, bias: Tensor, x: Tensor, norm: Norm) -> States:
    """LayerNorm of `x + bias + y`; several rows of `y` per row of `x` (one per expert) are added first.

    Shape: y [tokens x parts, hidden], bias [hidden], x [tokens, hidden], to [tokens, hidden]; `x` is the `wide` tensor
    of States.
    """
    parts = y.view(len(x), -1, x.shape[1]).float().sum(1)
    return _states(_normalised(x.float() + parts + bias.float(), norm), y.dtype, norm)


def gelu_(x: Tensor) -> Tensor:
    """GELU by the error function, as all three families were trained: any shape to the same.

    `x` may be overwritten to save memory.
    """
    return F.gelu(x, approximate="none")


def rotate_(qkv: Tensor, positions: Tensor, turns: Tensor) -> None:
    """Rotates queries and keys in `qkv` [tokens, 3 x hidden] by their position, each head's value 2i with 2i + 1.

    Shape: positions [tokens]; turns float32 [positions, head]: cosines, then sines, of every position.
    """
    pairs = qkv[:, : qkv.shape[1] // 3 * 2].view(len(qkv), -1, turns.shape[1] // 2, 2)
    cosine, sine = turns[positions][:, None, :].chunk(2, dim=-1)
    left, right = pairs.float().unbind(-1)
    pairs.copy_(torch.stack((left * cosine - right * sine, right * cosine + left * sine), dim=-1))


def mean(x: Tensor, starts: Tensor) -> Tensor:
    """The mean of each sequence's rows: [tokens, hidden] and starts [sequences + 1] to float32 [sequences, hidden]."""
    lengths = starts.diff()
    sums = x.new_zeros((len(lengths), x.shape[1]), dtype=torch.float32)
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths, output_size=len(x))
    return sums.index_add_(0, rows, x.float()) / lengths.clamp(min=1)[:, None]


def to_float8(x: Tensor, scale: float, gelu: bool = False) -> Tensor:
    """`x / scale`, optionally after GELU, as e4m3: any shape to the same.

    Values beyond e4m3's range saturate.
    """
    value = F.gelu(x.float()) if gelu else x.float()
    return (value / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


def _normalised(x: Tensor, norm: Norm) -> Tensor:
    """LayerNorm of every row: float32 [tokens, hidden] to the same."""
    return F.layer_norm(x, x.shape[-1:], norm.weight.float(), norm.bias.float(), norm.epsilon)


def _states(x: Tensor, dtype: torch.dtype, norm: Norm) -> States:
    """States of a network in `dtype`, from float32 [tokens, hidden]."""
    same = x.to(dtype)
    narrow = to_float8(x, norm.output_scale) if norm.output_scale else same
    return States(narrow, x if dtype == torch.bfloat16 else same)
