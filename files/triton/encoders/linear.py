"""A weight matrix and its bias over [tokens, in], and where the bias and GELU are added: in the product or after it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


class Linear:
    """`x @ weight.T + bias`."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def bare(self, x: Tensor) -> Tensor:
        """The product without the bias, for whoever adds it while adding something else."""
        return F.linear(x, self.weight)

    def activated(self, x: Tensor, how: "Activated") -> Tensor:
        """GELU of the projection."""
        return how(x, self)


Activated = Callable[[Tensor, Linear], Tensor]


def in_two_steps(gelu_: Callable[[Tensor], Tensor]) -> Activated:
    """GELU of the projection, in a pass of its own."""
    return lambda x, linear: gelu_(linear(x))


def in_one_product() -> Activated:
    """GELU inside cuBLAS's product. Its GELU is the tanh form, within 5e-4 of the other: below what fp16 resolves."""
    run = torch._addmm_activation
    return lambda x, linear: run(linear.bias, x, linear.weight.t(), use_gelu=True)
