"""A mixture of experts: its routing, and the two implementations in plain torch.

Each implementation takes a Routing and returns the weighted output of every slot (token x choice), in slot order.
`expert_kernels` and `expert_tiles` are faster implementations; `choices` takes the first that runs on this device.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Routing(NamedTuple):
    """Slot s is choice s % chosen of token s // chosen; `order` lists the slots grouped by expert."""

    weights: Tensor
    """float32 [slots]: the softmax over all experts, not renormalised."""
    experts: Tensor
    """[slots]: the expert of each."""
    order: Tensor
    """[slots], grouped by expert; in `expert_kernels` every group begins at a multiple of its block."""
    totals: Tensor
    """[experts]: the number of slots of each."""


def route(x: Tensor, router: Tensor, chosen: int) -> Routing:
    """Experts and softmax weights of every token in float32, in descending order.

    Shape: x [tokens, hidden], router [experts, hidden]; slots are tokens x chosen.
    """
    weights, experts = F.linear(x.float(), router).softmax(-1).topk(chosen)
    experts = experts.flatten()
    # one_hot rather than bincount, which reads its result back on CUDA
    totals = F.one_hot(experts, len(router)).sum(0)
    return Routing(weights.flatten(), experts, experts.argsort(stable=True), totals)


def one_by_one(x: Tensor, routing: Routing, up: Tensor, down: Tensor) -> Tensor:
    """Every slot's weighted expert output, with two products per expert; reads the totals back to the host once.

    Shape: x [tokens, hidden], up and down [experts, inner, hidden], to [slots, hidden].
    """
    parts = _gathered(x, routing).split(routing.totals.tolist())
    mixed = [F.gelu(part @ u.T) @ d for part, u, d in zip(parts, up, down, strict=True)]
    return _scattered(torch.cat(mixed), routing)


def grouped(product: Callable[..., Tensor]) -> Callable[[Tensor, Routing, Tensor, Tensor], Tensor]:
    """A function like `one_by_one` that uses `product`, torch's grouped_mm; fast in bfloat16.

    One call for all experts, without reading back to the host.
    """

    def run(x: Tensor, routing: Routing, up: Tensor, down: Tensor) -> Tensor:
        ends = routing.totals.cumsum(0).to(torch.int32)
        middle = F.gelu(product(_gathered(x, routing), up.transpose(1, 2), offs=ends))
        return _scattered(product(middle, down, offs=ends), routing)

    return run


def _gathered(x: Tensor, routing: Routing) -> Tensor:
    """The row of x [tokens, hidden] for each slot in `order`, [slots, hidden]."""
    return x[routing.order // (len(routing.order) // len(x))]


def _scattered(mixed: Tensor, routing: Routing) -> Tensor:
    """Rows [slots, hidden] in `order`, weighted and put back in slot order."""
    out = torch.empty_like(mixed)
    out[routing.order] = (mixed.float() * routing.weights[routing.order, None]).to(mixed.dtype)
    return out
