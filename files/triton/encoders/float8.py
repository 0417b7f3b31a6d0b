"""8-bit products: an option for those who measured on their own data that they can afford it.

Weights and the inputs of every dense projection become e4m3, one scale each; sums stay float32, everything between the
products stays in 16 bits, and so do experts, router and head. Input scales come from passes over random tokens at
start, with room for inputs twice as large; what is larger still is cut off, not wrapped.

At start the pooled states of those passes are compared with the 16-bit ones, and a difference above the gate refuses
the model: so much error is a defect, not noise. That the gate is met does not say how your ranking fares.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import CheckpointError
from .linear import Activated, Linear

LARGEST = 448.0  # of e4m3
MARGIN = 2.0
GATE = 0.01
"""1 - cosine of a sequence's pooled state in 8 bits and in 16."""


class Float8Linear(Linear):
    """The same projection in 8 bits; input in 16 bits, or in 8 from the projection before."""

    def __init__(self, wide: Linear, largest_input: float, steps: Any) -> None:
        self.scale, self.steps, self.bias = max(largest_input, 1e-6) * MARGIN / LARGEST, steps, wide.bias
        weight_scale = float(wide.weight.abs().amax()) / LARGEST
        self.weight = (wide.weight.float() / weight_scale).to(torch.float8_e4m3fn)
        self._scales = [torch.tensor(value, device=self.weight.device) for value in (self.scale, weight_scale)]
        self.next_scale = 1.0
        """Of the projection after GELU, where there is one."""

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x, self.bias)

    def bare(self, x: Tensor) -> Tensor:
        """The product without the bias."""
        return self._product(x, None)

    def activated(self, x: Tensor, how: Activated) -> Tensor:
        """GELU of the projection, in 8 bits for the next."""
        return self.steps.to_float8(self(x), self.next_scale, gelu=True)

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        narrow = x if x.dtype == torch.float8_e4m3fn else self.steps.to_float8(x, self.scale)
        kind = self.bias.dtype
        return torch._scaled_mm(narrow, self.weight.t(), *self._scales, bias=bias, out_dtype=kind, use_fast_accum=True)


class Watched(Linear):
    """A projection that remembers its largest input."""

    def __init__(self, wide: Linear) -> None:
        super().__init__(wide.weight, wide.bias)
        self.wide, self.largest = wide, 0.0

    def __call__(self, x: Tensor) -> Tensor:
        self._watch(x)
        return super().__call__(x)

    def bare(self, x: Tensor) -> Tensor:
        """The product without the bias."""
        self._watch(x)
        return super().bare(x)

    def activated(self, x: Tensor, how: Activated) -> Tensor:
        """GELU of the projection."""
        self._watch(x)
        return super().activated(x, how)

    def _watch(self, x: Tensor) -> None:
        self.largest = max(self.largest, float(x.abs().amax()))


@torch.inference_mode()
def narrow(trunk: Any, steps: Any, pooled: Callable[[], np.ndarray]) -> float:
    """`trunk` multiplies in 8 bits from now on; gives the worst 1 - cosine of `pooled`, its states over some sequences.

    Refuses: a difference above GATE.
    """
    for holder, name in _places(trunk, Linear):
        setattr(holder, name, Watched(getattr(holder, name)))
    wanted = pooled()
    for holder, name in _places(trunk, Watched):
        watched = getattr(holder, name)
        setattr(holder, name, Float8Linear(watched.wide, watched.largest, steps))
    for holder in {id(holder): holder for holder, _ in _places(trunk, Float8Linear)}.values():
        if hasattr(holder, "up"):
            holder.up.next_scale = holder.down.scale
    got = pooled()
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    worst = float((1 - (got * wanted).sum(1) / lengths).max())
    if not worst <= GATE:
        raise CheckpointError(
            f"config.pbtxt: products is fp8; that moves states by 1 - cosine {worst:.4f}, above {GATE}; leave it out"
        )
    return worst


def _places(trunk: Any, kind: type) -> Iterator[tuple[Any, str]]:
    for layer in trunk.layers:
        for holder in (layer, getattr(layer, "mlp", None)):
            for name, value in list(vars(holder).items()) if holder is not None else ():
                if type(value) is kind:
                    yield holder, name
