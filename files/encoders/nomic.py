"""NomicBert over packed sequences: v2 with a mixture of experts (nomic-embed-text-v2-moe), v1 and v1.5 without.

The vectors of v2 are right only with four details, each of which has a test: rotary halves (not interleaved pairs) with
the base of config.json; the two routing weights taken from the softmax over all experts, not renormalised; one bias for
all experts, added once after the weighted sum; experts on every second layer, beginning with layer 1. v1 and v1.5 have
a gated feed-forward in every layer and no bias outside the norms. At load, the rows of the weights are reordered so
that values that are rotated together are adjacent.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .choices import Kernels
from .family import Family, Network, embeds, must_be
from .linear import Linear
from .packing import Packed
from .plain import States
from .settings import TASKS
from .weights import Shapes, Weights, norm, pair

FIXED = {
    "causal": False,
    "prenorm": False,
    "parallel_block": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "use_rms_norm": None,
}


MIXED = {
    "activation_function": "gelu",
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "num_shared_experts": 0,
    "ffn_div": 1,
    "expert_choice_router": False,
    "moe_normalize_expert_weights": False,
}
"""Further settings of v2."""
GATED = {"activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False}
"""Further settings of v1 and v1.5."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the network, as config.json declares them."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    inner: int
    segments: int
    epsilon: float
    rotary_base: float
    experts: int
    chosen: int
    moe_every: int
    positions: int
    """Longest sequence of the rotation table."""

    def mixes(self, layer: int) -> bool:
        """True if the layer with this index has experts."""
        return self.experts > 0 and layer % self.moe_every == 1

    @property
    def gated(self) -> bool:
        """True for v1 and v1.5, whose layers have no biases and a gate instead of experts."""
        return not self.experts


def shapes(s: Shape) -> Shapes:
    """Name and shape of every tensor of the checkpoint.

    Expert e owns rows e * inner to (e + 1) * inner of w1 and of w2.
    """
    h = s.hidden
    tensors: Shapes = {
        "embeddings.word_embeddings.weight": (s.vocabulary, h),
        "embeddings.token_type_embeddings.weight": (s.segments, h),
        **pair("emb_ln", h),
    }
    for index in range(s.layers):
        layer = f"encoder.layers.{index}"
        tensors |= pair(f"{layer}.norm1", h) | pair(f"{layer}.norm2", h)
        if s.gated:
            tensors |= {f"{layer}.attn.Wqkv.weight": (3 * h, h), f"{layer}.attn.out_proj.weight": (h, h)}
            tensors |= {f"{layer}.mlp.{name}.weight": (s.inner, h) for name in ("fc11", "fc12")}
            tensors[f"{layer}.mlp.fc2.weight"] = (h, s.inner)
            continue
        tensors |= pair(f"{layer}.attn.Wqkv", 3 * h, h) | pair(f"{layer}.attn.out_proj", h, h)
        if s.mixes(index):
            tensors[f"{layer}.mlp.router.layer.weight"] = (s.experts, h)
            for name in ("w1", "w2"):
                tensors[f"{layer}.mlp.experts.mlp.{name}"] = (s.experts * s.inner, h)
            tensors[f"{layer}.mlp.experts.bias"] = (h,)
        else:
            tensors |= pair(f"{layer}.mlp.fc1", s.inner, h) | pair(f"{layer}.mlp.fc2", h, s.inner)
    return tensors


class NomicBert:
    """Packed token ids to hidden states [tokens, hidden]."""

    # Routing picks experts by small differences of logits: in 16 bits 1 to 4 % of the tokens would go elsewhere.
    FLOAT32 = r"\.router\.layer\.weight$"

    def __init__(self, shape: Shape, weights: Weights, kernels: Kernels) -> None:
        self.kernels = kernels
        self.word = weights["embeddings.word_embeddings.weight"]
        self.segment = weights["embeddings.token_type_embeddings.weight"][0]
        self.norm = norm(weights, "emb_ln", shape.epsilon)
        turns = rotations(shape.positions, shape.hidden // shape.heads, shape.rotary_base).to(kernels.device)
        self.layers = [Layer(shape, weights, index, turns, kernels) for index in range(shape.layers)]

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [tokens, hidden]."""
        x = self.kernels.steps.embed(batch.ids, batch.positions, self.word, None, self.segment, self.norm)
        for layer in self.layers:
            x = layer(x, batch)
        return x.wide


class Layer:
    """Attention and a dense, gated or expert feed-forward, each followed by residual addition and LayerNorm."""

    def __init__(self, shape: Shape, weights: Weights, index: int, turns: Tensor, kernels: Kernels) -> None:
        at = f"encoder.layers.{index}"
        self.heads, self.turns, self.kernels = shape.heads, turns, kernels
        self.qkv = side_by_side(weights.linear(f"{at}.attn.Wqkv"), shape.heads)
        self.out = weights.linear(f"{at}.attn.out_proj")
        self.norm1, self.norm2 = (norm(weights, f"{at}.{name}", shape.epsilon) for name in ("norm1", "norm2"))
        kind = Gated if shape.gated else Experts if shape.mixes(index) else Dense
        self.mlp: Gated | Experts | Dense = kind(shape, weights, f"{at}.mlp", kernels)

    def __call__(self, x: States, batch: Packed) -> States:
        """The next states: [tokens, hidden] to the same."""
        mixed = self.mixed(x.narrow, batch)
        x = self.kernels.steps.add_norm(self.out.bare(mixed), self.out.bias, x.wide, self.norm1)
        return self.kernels.steps.add_norm(*self.mlp(x.narrow), x.wide, self.norm2)

    def mixed(self, x: Tensor, batch: Packed) -> Tensor:
        """Attention over the states: [tokens, hidden] to the same.

        A separate function, so that queries, keys and values are freed at its end.
        """
        qkv = self.qkv.rotated(x, self.kernels.rotated, batch.positions, self.turns)
        return self.kernels.attend(qkv, self.heads, batch, self.out.input_scale)


class Dense:
    """Feed-forward of the layers without experts."""

    def __init__(self, shape: Shape, weights: Weights, at: str, kernels: Kernels) -> None:
        self.kernels = kernels
        self.up, self.down = weights.linear(f"{at}.fc1"), weights.linear(f"{at}.fc2")

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output for `x` [tokens, hidden] as two summands: a row for each token, [tokens, hidden], and a bias
        [hidden]."""
        return self.down.bare(self.up.activated(x, self.kernels.activated)), self.down.bias


class Gated:
    """Feed-forward of v1 and v1.5: one half of the first product, through SiLU, scales the other."""

    def __init__(self, shape: Shape, weights: Weights, at: str, kernels: Kernels) -> None:
        self.up, self.down = weights.linear(f"{at}.fc12", f"{at}.fc11"), weights.linear(f"{at}.fc2")

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output for `x` [tokens, hidden] as two summands: a row for each token, [tokens, hidden], and a bias
        [hidden]."""
        gate, inner = self.up(x).chunk(2, dim=1)
        return self.down.bare(F.silu(gate) * inner), self.down.bias


class Experts:
    """Passes each token through its `chosen` most likely experts, weighted by the router's softmax in float32.

    w1 is used transposed, w2 as it is stored; one bias for all experts, added once.
    """

    def __init__(self, shape: Shape, weights: Weights, at: str, kernels: Kernels) -> None:
        self.chosen, self.kernels = shape.chosen, kernels
        self.router, self.bias = weights[f"{at}.router.layer.weight"], weights[f"{at}.experts.bias"]
        cut = (shape.experts, shape.inner, shape.hidden)
        self.up, self.down = (weights[f"{at}.experts.mlp.{name}"].view(cut) for name in ("w1", "w2"))

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output for `x` [tokens, hidden] as two summands: a row for each slot, and a bias.

        Shape: [tokens x chosen, hidden] and [hidden].
        """
        routing = self.kernels.route(x, self.router, self.chosen)
        return self.kernels.experts(x, routing, self.up, self.down), self.bias


def side_by_side(qkv: Linear, heads: int) -> Linear:
    """The projection with values i and i + head / 2 of each query and key, which are rotated together, moved to 2i and
    2i + 1.

    Shape: weight [3 x hidden, hidden], bias [3 x hidden], unchanged. Products of queries and keys stay the same, and
    the rotation reads adjacent values.
    """
    rows = torch.arange(len(qkv.weight), device=qkv.weight.device).view(3, heads, 2, -1)
    queries, keys, values = rows[0].mT, rows[1].mT, rows[2]
    order = torch.cat([part.flatten() for part in (queries, keys, values)])
    return Linear(qkv.weight[order], qkv.bias[order])


def rotations(positions: int, head: int, base: float) -> Tensor:
    """Cosines, then sines, of every position, float32 [positions, head]."""
    frequencies = base ** (-torch.arange(0, head, 2, dtype=torch.float32) / head)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


@embeds("NomicBertModel")
def read(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a NomicBert, with experts or without.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    experts = config.get("num_experts") or 0
    must_be(directory, config, FIXED | (MIXED if experts else GATED))
    shape = Shape(
        vocabulary=config["vocab_size"],
        hidden=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        inner=config["n_inner"] or 4 * config["n_embd"],
        segments=config["type_vocab_size"],
        epsilon=config["layer_norm_epsilon"],
        rotary_base=config["rotary_emb_base"],
        experts=experts,
        chosen=config["moe_top_k"] if experts else 0,
        moe_every=config["moe_every_n_layers"] if experts else 0,
        positions=config.get("max_trained_positions") or config["n_positions"],
    )
    return family_of(shape, config["pad_token_id"] if experts else config.get("pad_token_id") or 0)


def family_of(shape: Shape, padding: int) -> Family:
    """The family of a shape whose filling token is `padding`."""
    return Family(
        build=lambda weights, kernels: Network(NomicBert(shape, weights, kernels)),
        shapes=partial(shapes, shape),
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions,
        padding_id=padding,
        prefixes={task: f"{task}: " for task in TASKS},
        float32=NomicBert.FLOAT32,
        mixture=not shape.gated,
    )
