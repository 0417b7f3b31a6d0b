"""A weight matrix and its bias over [tokens, in], and what may follow the product: GELU, or a rotation.

What follows is done inside the product or in a pass of its own; `choices` decides which. e4m3 tensors hold values
divided by a scale: `input_scale` of the projection that reads them, `output_scale` of the step that writes them.
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
        """The product [tokens, out] without the bias, which the caller adds together with something else."""
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
"""With fewer rows a product's tiles do not fill the device, and the library has smaller tiles."""


def by_rows(few: Callable[..., Tensor], many: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that calls `few` for up to FEW_ROWS rows, [rows, in], and `many` for more."""
    return lambda x, *more: (few if len(x) <= FEW_ROWS else many)(x, *more)


def in_two_steps(gelu_: Callable[[Tensor], Tensor]) -> Activated:
    """A function for GELU of the projection, in a pass of its own: [tokens, in] to [tokens, out]."""
    return lambda x, linear: gelu_(linear(x))


def in_one_product() -> Activated:
    """A function for GELU inside cuBLAS's product: [tokens, in] to [tokens, out].

    Its GELU is the tanh form, within 5e-4 of the other: below what fp16 resolves.
    Raises: AttributeError where a torch release has no such product.
    """
    run = torch._addmm_activation
    return lambda x, linear: run(linear.bias, x, linear.weight.t(), use_gelu=True)


def then_rotated(rotate_: Callable[[Tensor, Tensor, Tensor], None]) -> Rotated:
    """A function for the projection with the rotation in a pass of its own: [tokens, in] to [tokens, 3 x hidden]."""

    def run(x: Tensor, linear: Linear, positions: Tensor, turns: Tensor) -> Tensor:
        qkv = linear(x)
        rotate_(qkv, positions, turns)
        return qkv

    return run
