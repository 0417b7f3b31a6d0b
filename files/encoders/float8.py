"""8-bit products: an option for those who measured on their own data that they can afford it.

Weights and the inputs of every dense projection become e4m3, one scale each; sums stay float32, what attention and
LayerNorm add up stays in 16 bits, and so do experts, router and head. Input scales come from passes over random tokens
at start, with room for inputs twice as large; what is larger still is cut off, not wrapped. Whatever step comes before
a projection writes its result in 8 bits at once, but for the few rows that only_first leaves of a last layer.

At start the pooled states of those passes are compared with the 16-bit ones, and a difference above the gate refuses
the model: so much error is a defect, not noise. That the gate is met does not say how your ranking fares.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .choices import Kernels
from .errors import CheckpointError
from .linear import Activated, Linear, Rotated
from .plain import Norm

LARGEST = 448.0  # of e4m3
MARGIN = 2.0
LEAST_INPUT = 0.01
"""Smaller inputs are scaled as if they were so large: float16 must hold 1 / input_scale."""
GATE = 0.01
"""1 - cosine of a sequence's pooled state in 8 bits and in 16."""


class Float8Linear(Linear):
    """The same projection in 8 bits; input in 16 bits, or in 8 from the step before."""

    def __init__(self, wide: Linear, largest_input: float, kernels: Kernels) -> None:
        self.input_scale = max(largest_input, LEAST_INPUT) * MARGIN / LARGEST
        self.bias, self._kernels = wide.bias, kernels
        weight_scale = float(wide.weight.abs().amax()) / LARGEST
        self.weight = (wide.weight.float() / weight_scale).to(torch.float8_e4m3fn)
        self._scales = [torch.tensor(value, device=self.weight.device) for value in (self.input_scale, weight_scale)]
        self._scale = self.input_scale * weight_scale
        self.output_scale = 1.0
        """Of the projection after GELU, where there is one."""

    def __call__(self, x: Tensor) -> Tensor:
        """The projection in 16 bits: [tokens, in] to [tokens, out]."""
        return self._product(x, self.bias)

    def bare(self, x: Tensor) -> Tensor:
        """The product without the bias: [tokens, in] to [tokens, out]."""
        return self._product(x, None)

    def activated(self, x: Tensor, how: Activated) -> Tensor:
        """GELU of the projection, in 8 bits for the next: [tokens, in] to [tokens, out]."""
        if product := self._kernels.product:
            x = self._narrowed(x)
            return product(x, self.weight, self.bias, self._scale, gelu=True, output_scale=self.output_scale)
        return self._kernels.steps.to_float8(self(x), self.output_scale, gelu=True)

    def rotated(self, x: Tensor, how: Rotated, positions: Tensor, turns: Tensor) -> Tensor:
        """The projection to queries, keys and values, the first two rotated: [tokens, in] to [tokens, 3 x hidden]."""
        if product := self._kernels.product:
            return product(self._narrowed(x), self.weight, self.bias, self._scale, positions=positions, turns=turns)
        qkv = self(x)
        self._kernels.steps.rotate_(qkv, positions, turns)
        return qkv

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        kind = self.bias.dtype
        x = self._narrowed(x)
        return torch._scaled_mm(x, self.weight.t(), *self._scales, bias=bias, out_dtype=kind, use_fast_accum=True)

    def _narrowed(self, x: Tensor) -> Tensor:
        return x if x.dtype == torch.float8_e4m3fn else self._kernels.steps.to_float8(x, self.input_scale)


class Watched(Linear):
    """A projection that remembers its largest input."""

    def __init__(self, wide: Linear) -> None:
        super().__init__(wide.weight, wide.bias)
        self.wide, self.largest = wide, 0.0

    def __call__(self, x: Tensor) -> Tensor:
        """The projection: [tokens, in] to [tokens, out]."""
        self._watch(x)
        return super().__call__(x)

    def bare(self, x: Tensor) -> Tensor:
        """The product without the bias: [tokens, in] to [tokens, out]."""
        self._watch(x)
        return super().bare(x)

    def activated(self, x: Tensor, how: Activated) -> Tensor:
        """GELU of the projection: [tokens, in] to [tokens, out]."""
        self._watch(x)
        return super().activated(x, how)

    def rotated(self, x: Tensor, how: Rotated, positions: Tensor, turns: Tensor) -> Tensor:
        """The projection to queries, keys and values, the first two rotated: [tokens, in] to [tokens, 3 x hidden]."""
        self._watch(x)
        return super().rotated(x, how, positions, turns)

    def _watch(self, x: Tensor) -> None:
        self.largest = max(self.largest, float(x.abs().amax()))


def narrow(trunk: Any, kernels: Kernels, pooled: Callable[[], np.ndarray]) -> float:
    """The worst 1 - cosine of `pooled`, states [sequences, hidden] of `trunk`, which multiplies in 8 bits from now on.

    Raises: CheckpointError for a difference above GATE.
    """
    with torch.inference_mode():
        worst = _narrowed(trunk, kernels, pooled)
    if not worst <= GATE:
        raise CheckpointError(
            f"config.pbtxt: products is fp8; that moves states by 1 - cosine {worst:.4f}, above {GATE}; leave it out"
        )
    return worst


def _narrowed(trunk: Any, kernels: Kernels, pooled: Callable[[], np.ndarray]) -> float:
    for holder, name in _places(trunk, Linear):
        setattr(holder, name, Watched(getattr(holder, name)))
    wanted = pooled()
    for holder, name in _places(trunk, Watched):
        watched = getattr(holder, name)
        setattr(holder, name, Float8Linear(watched.wide, watched.largest, kernels))
    _hand_over(trunk)
    got = pooled()
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    return float((1 - (got * wanted).sum(1) / lengths).max())


def _hand_over(trunk: Any) -> None:
    """Each step before an 8-bit projection knows the scale of what it writes."""
    before, name = trunk, "norm"
    for layer in trunk.layers:
        setattr(before, name, _for(getattr(before, name), layer.qkv))
        mlp = getattr(layer, "mlp", layer)
        if isinstance(mlp.up, Float8Linear):  # experts stay in 16 bits, and so do the states they are given
            mlp.up.output_scale = mlp.down.input_scale
            layer.norm1 = _for(layer.norm1, mlp.up)
        before, name = layer, "norm2"


def _for(norm: Norm, reader: Linear) -> Norm:
    return norm._replace(output_scale=reader.input_scale)


def _places(trunk: Any, kind: type) -> Iterator[tuple[Any, str]]:
    for layer in trunk.layers:
        for holder in (layer, getattr(layer, "mlp", None)):
            for name, value in list(vars(holder).items()) if holder is not None else ():
                if type(value) is kind:
                    yield holder, name
