"""A weight matrix and its bias over [tokens, in], and the step after the product: GELU or a rotation.

The step is part of the product's kernel or a separate kernel; `choices` decides which. e4m3 tensors hold values divided
by a scale: `input_scale` of the projection that reads them, `output_scale` of the step that writes them.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


class Linear:
    """`x @ weight.T + bias`: weight [out, in], bias [out]."""

    input_scale = 0.0
    """Scale of its e4m3 inputs; 0: its inputs have 16 bits or more."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """The projection: [tokens, in] to [tokens, out]."""
        return F.linear(x, self.weight, self.bias)

    def bare(self, x: Tensor) -> Tensor:
        """The product [tokens, out] without the bias, which the caller adds in a later step."""
        return F.linear(x, self.weight)

    def activated(self, x: Tensor, how: "Activated") -> Tensor:
        """GELU of the projection: [tokens, in] to [tokens, out]."""
        return how(x, self)

    def rotated(self, x: Tensor, how: "Rotated", positions: Tensor, turns: Tensor) -> Tensor:
        """Queries, keys and values [tokens, 3 x hidden], the first two rotated by their positions (plain.rotate_)."""
        return how(x, self, positions, turns)


Activated = Callable[[Tensor, Linear], Tensor]
Rotated = Callable[[Tensor, Linear, Tensor, Tensor], Tensor]

FEW_ROWS = 1024
"""Up to this number of rows, a product's tiles do not fill the device, and the library's smaller tiles are faster."""


def by_rows(few: Callable[..., Tensor], many: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that calls `few` for [rows, in] with up to FEW_ROWS rows, and `many` for more."""
    return lambda x, *more: (few if len(x) <= FEW_ROWS else many)(x, *more)


def in_two_steps(gelu_: Callable[[Tensor], Tensor]) -> Activated:
    """A function for the projection and GELU as separate kernels: [tokens, in] to [tokens, out]."""
    return lambda x, linear: gelu_(linear(x))


def in_one_product() -> Activated:
    """A function for the projection with GELU inside cuBLAS's kernel: [tokens, in] to [tokens, out].

    Its GELU is the tanh form, within 5e-4 of the exact form: below fp16's resolution.
    Raises: AttributeError if the torch release has no such product.
    """
    run = torch._addmm_activation
    return lambda x, linear: run(linear.bias, x, linear.weight.t(), use_gelu=True)


def then_rotated(rotate_: Callable[[Tensor, Tensor, Tensor], None]) -> Rotated:
    """A function for the projection and the rotation as separate kernels: [tokens, in] to [tokens, 3 x hidden]."""

    def run(x: Tensor, linear: Linear, positions: Tensor, turns: Tensor) -> Tensor:
        qkv = linear(x)
        rotate_(qkv, positions, turns)
        return qkv

    return run
