"""Records the expert of each token, so that the reference can follow a network through routing ties.

16-bit states send a few tokens to an expert that is a close third in float32 (bf16 1.2 %, fp16 0.16 % of the choices of
a full-size NomicBert; 68 texts, CPU, random weights, 2026-11-21). Both answers are right, and one such token changes a
short text more than all rounding does: in bf16 up to 6.2e-4, and 0.9e-4 from the reference that follows.
"""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from encoders.choices import Kernels
from encoders.routing import Routing
from tests.encoders.reference import Sent

LEAD = {"fp32": 1e-4, "fp16": 0.0125, "bf16": 0.1}
"""Largest difference within a tie, as a share of the spread of a token's logits. Measured: 0.0038 in fp16, 0.055 in
bf16."""


def watched(
    kernels: Kernels, run: Callable[[], np.ndarray], lengths: Sequence[int], lead: float
) -> tuple[np.ndarray, list[Sent]]:
    """Returns the output of `run`, one pass without a graph, and the experts of each sequence's tokens."""
    route, seen = kernels.route, []

    def watching(x: Tensor, router: Tensor, chosen: int) -> Routing:
        routed = route(x, router, chosen)
        seen.append(routed.experts.view(-1, chosen).cpu().numpy())
        return routed

    kernels.route = watching
    try:
        out = run()
    finally:
        kernels.route = route
    ends = np.cumsum(lengths)
    return out, [Sent(experts, lead) for experts in np.split(np.stack(seen)[:, : ends[-1]], ends[:-1], axis=1)]
