"""Hands out a checkpoint's tensors by name on the device; joins projections that share one product.

They are joined on the host, so that loading needs no more device memory than serving.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from .linear import Linear
from .plain import Norm

Shapes = dict[str, tuple[int, ...]]


class Weights:
    """Tensors by name; `[name]` hands a tensor out once, on the device.

    Raises: KeyError for an unknown name, or one already handed out.
    """

    def __init__(self, tensors: dict[str, Tensor], device: str) -> None:
        self._tensors, self._device = tensors, device

    def __getitem__(self, name: str) -> Tensor:
        """The tensor `name` on the device, of any shape; a second call raises KeyError."""
        return self._tensors.pop(name).to(self._device)

    def peek(self, name: str) -> Tensor:
        """The tensor `name` on the host, of any shape; it can still be handed out. Raises: KeyError as above."""
        return self._tensors[name]

    def __delitem__(self, name: str) -> None:
        del self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def linear(self, *names: str) -> Linear:
        """The projections `names` joined into one: weights [out, in] to [sum of out, in].

        A missing bias becomes zeros. Raises: KeyError as above.
        """
        weights = [self._tensors.pop(f"{name}.weight") for name in names]
        biases = [
            self._tensors.pop(f"{name}.bias") if f"{name}.bias" in self._tensors else weight.new_zeros(len(weight))
            for name, weight in zip(names, weights, strict=True)
        ]
        weight, bias = (torch.cat(part) if len(part) > 1 else part[0] for part in (weights, biases))
        return Linear(weight.to(self._device), bias.to(self._device))


def norm(weights: Weights, name: str, epsilon: float) -> Norm:
    """The LayerNorm `name`, [hidden].

    Raises: KeyError for an unknown name.
    """
    return Norm(weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)


def pair(name: str, *shape: int) -> Shapes:
    """Names and shapes of a weight and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
