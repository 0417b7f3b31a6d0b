"""A weight matrix and its bias as a function of [tokens, in]; and two of them with GELU between, the feed-forward."""

from torch import Tensor
from torch.nn import functional as F


class Linear:
    """`x @ weight.T + bias`."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)
