"""8-bit products: an option for operators who have measured the loss of quality on their own data.

The weights and inputs of every dense projection become e4m3, with one scale each. Sums stay float32; the sums of
attention and LayerNorm, the experts, the router and the head stay in 16 bits. Input scales are measured at start in
passes over random tokens, with a factor of two in reserve; larger inputs saturate. The step before a projection writes
its result in 8 bits directly, except for the few rows of a last layer with only_first.

At start, the pooled states of those passes are compared with the 16-bit ones. If the difference exceeds GATE, the model
is refused: such an error is a defect, not noise. A model within GATE may still rank your documents worse.
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
"""Lower bound for the largest input, because float16 must be able to hold 1 / input_scale."""
GATE = 0.01
"""Largest accepted 1 - cosine between a sequence's pooled states in 8 and in 16 bits."""


class Float8Linear(Linear):
    """A projection in 8 bits; its input has 16 bits, or 8 bits from the step before."""

    def __init__(self, wide: Linear, largest_input: float, kernels: Kernels) -> None:
        self.input_scale = max(largest_input, LEAST_INPUT) * MARGIN / LARGEST
        self.bias, self._kernels = wide.bias, kernels
        weight_scale = float(wide.weight.abs().amax()) / LARGEST
        self.weight = (wide.weight.float() / weight_scale).to(torch.float8_e4m3fn)
        self._scales = [torch.tensor(value, device=self.weight.device) for value in (self.input_scale, weight_scale)]
        self._scale = self.input_scale * weight_scale
        self.output_scale = 1.0
        """Scale of the projection after GELU; 0 without one."""

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
        """The projection to queries, keys and values, with queries and keys rotated: [tokens, in] to [tokens, 3 x
        hidden]."""
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
    """A projection that records its largest input."""

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
        """The projection to queries, keys and values, with queries and keys rotated: [tokens, in] to [tokens, 3 x
        hidden]."""
        self._watch(x)
        return super().rotated(x, how, positions, turns)

    def _watch(self, x: Tensor) -> None:
        self.largest = max(self.largest, float(x.abs().amax()))


def narrow(trunk: Any, kernels: Kernels, pooled: Callable[[], np.ndarray]) -> float:
    """Switches `trunk` to 8-bit products; returns the largest 1 - cosine of its `pooled` states [sequences, hidden].

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
    """Sets the output scale of each step before an 8-bit projection."""
    before, name = trunk, "norm"
    for layer in trunk.layers:
        setattr(before, name, _for(getattr(before, name), layer.qkv))
        mlp = getattr(layer, "mlp", layer)
        if isinstance(mlp.up, Float8Linear):  # experts compute in 16 bits, so their inputs stay in 16 bits too
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
