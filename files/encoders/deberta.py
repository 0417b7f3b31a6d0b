"""DeBERTa-v2 and v3 with a one-label head: rerankers whose attention scores positions as well as contents.

The score of two tokens is a sum of three products: query with key, query with the key of their distance, and key with
the query of their distance, all divided by the root of three heads' width. Distances are buckets: exact near a token,
ever wider ones further away. Keys and queries of the buckets do not depend on the text, so they are computed once, at
start.

No library's attention kernel supports this score. So a pass reads its lengths back to the host, and sequences of
similar length are computed together, a few at a time. Such a pass cannot be captured in a CUDA graph. Scores and their
softmax are float32.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .choices import Kernels
from .family import Family, Network, must_be, reranks
from .packing import TILE, Packed, firsts
from .plain import States
from .weights import Shapes, Weights, norm, pair

FIXED = {
    "hidden_act": "gelu",
    "pooler_hidden_act": "gelu",
    "relative_attention": True,
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "type_vocab_size": 0,
    "conv_kernel_size": 0,
    "pos_att_type": "c2p|p2c",
}
AT, HEAD = "deberta.", ("pooler.dense", "classifier")
MOST_SCORES = 2**24
"""Approximate number of scores of one kind in memory at a time; five arrays of 64 MiB each."""


@dataclass(frozen=True)
class Shape:
    """Sizes of one trunk, as config.json declares them."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    buckets: int
    """Number of distance buckets on either side."""
    furthest: int
    """The distance at which the last bucket begins."""


@dataclass(frozen=True)
class Group:
    """Sequences of similar length: the row of every token, and its place among sequences padded to `width` tokens.

    Shape: rows and places [tokens]; absent, bool [sequences, 1, 1, width], is true for places after the end of a
    sequence.
    """

    rows: Tensor
    places: Tensor
    absent: Tensor
    width: int


@reranks("DebertaV2ForSequenceClassification")
def read(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a DeBERTa reranker.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    kinds = config["pos_att_type"]
    kinds = sorted(kinds.split("|") if isinstance(kinds, str) else kinds)
    fixed = FIXED | {"embedding_size": config["hidden_size"], "attention_head_size": None}
    unset = {"conv_kernel_size": 0, "pooler_hidden_act": "gelu", "embedding_size": config["hidden_size"]}
    must_be(directory, unset | {"attention_head_size": None} | config | {"pos_att_type": "|".join(kinds)}, fixed)
    shape = Shape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        epsilon=config["layer_norm_eps"],
        buckets=config["position_buckets"],
        furthest=config.get("max_relative_positions", -1),
    )
    return Family(
        build=partial(_network, shape),
        shapes=partial(shapes, shape),
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions,
        padding_id=config.get("pad_token_id", 0),
        float32=r"^(classifier|pooler)\.",
        longest_first=True,
        reads_lengths=True,
    )


def shapes(s: Shape) -> Shapes:
    """Name and shape of every tensor of the checkpoint."""
    h = s.hidden
    tensors: Shapes = {
        f"{AT}embeddings.word_embeddings.weight": (s.vocabulary, h),
        **pair(f"{AT}embeddings.LayerNorm", h),
        f"{AT}encoder.rel_embeddings.weight": (2 * spread(s), h),
        **pair(f"{AT}encoder.LayerNorm", h),
    }
    for index in range(s.layers):
        layer = f"{AT}encoder.layer.{index}"
        for part in ("query_proj", "key_proj", "value_proj"):
            tensors |= pair(f"{layer}.attention.self.{part}", h, h)
        tensors |= pair(f"{layer}.attention.output.dense", h, h) | pair(f"{layer}.attention.output.LayerNorm", h)
        tensors |= pair(f"{layer}.intermediate.dense", s.inner, h) | pair(f"{layer}.output.dense", h, s.inner)
        tensors |= pair(f"{layer}.output.LayerNorm", h)
    return tensors | pair(HEAD[0], h, h) | pair(HEAD[1], 1, h)


def spread(shape: Shape) -> int:
    """Buckets on either side: as declared, or one for each distance."""
    return shape.buckets if shape.buckets > 0 else max_distance(shape)


def max_distance(shape: Shape) -> int:
    return shape.furthest if shape.furthest > 0 else shape.positions


def buckets(shape: Shape, width: int) -> Tensor:
    """The bucket of each pair of tokens of a sequence, int64 [width, width]; computed on the host, so that logarithms
    round alike.

    Each distance below half the number of buckets has its own bucket; the widths of the others grow logarithmically.
    """
    apart = torch.arange(width)[:, None] - torch.arange(width)[None, :]
    if shape.buckets > 0:
        half = shape.buckets // 2
        far = torch.where(apart.abs() < half, torch.full_like(apart, half - 1), apart.abs())
        steps = torch.log(far / half) / torch.log(torch.tensor((max_distance(shape) - 1) / half)) * (half - 1)
        apart = torch.where(far <= half, apart, ((torch.ceil(steps) + half) * apart.sign()).long())
    return (apart + spread(shape)).clamp(0, 2 * spread(shape) - 1)


class Trunk:
    """Packed token ids to hidden states [tokens, hidden]."""

    def __init__(self, shape: Shape, weights: Weights, kernels: Kernels) -> None:
        self.shape, self.kernels = shape, kernels
        self.word = weights[f"{AT}embeddings.word_embeddings.weight"]
        self.none = torch.zeros_like(self.word[0])
        self.norm = norm(weights, f"{AT}embeddings.LayerNorm", shape.epsilon)
        distances, kept = weights[f"{AT}encoder.rel_embeddings.weight"], norm(weights, f"{AT}encoder.LayerNorm", 0.0)
        wide = F.layer_norm(distances.float(), (shape.hidden,), kept.weight.float(), kept.bias.float(), shape.epsilon)
        places = wide.to(distances.dtype)
        self.layers = [
            Layer(shape, weights, f"{AT}encoder.layer.{index}", places, kernels) for index in range(shape.layers)
        ]
        self.table = buckets(shape, shape.positions).to(kernels.device)

    def __call__(self, batch: Packed, only_first: bool = False) -> Tensor:
        """Hidden states [tokens, hidden]; with `only_first` of each sequence's first token, [sequences, hidden]."""
        groups = list(grouped(batch, self.shape))
        x = self.kernels.steps.embed(batch.ids, batch.positions, self.word, None, self.none, self.norm)
        for layer in self.layers[:-1]:
            x = layer.next(x, groups, self.table)
        return self.layers[-1].next(x, groups, self.table, firsts(batch) if only_first else None).wide


def grouped(batch: Packed, shape: Shape) -> Iterator[Group]:
    """The pass's sequences in groups of similar length; reads `starts` back to the host."""
    starts = batch.starts.cpu().numpy()
    lengths, device = np.diff(starts), batch.starts.device
    widths = -(-lengths // TILE) * TILE
    for width in np.unique(widths[lengths > 0]):
        members = np.flatnonzero(widths == width)
        at_once = max(1, MOST_SCORES // int(shape.heads * width * max(width, 2 * spread(shape))))
        for first in range(0, len(members), at_once):
            some = members[first : first + at_once]
            longest = int(lengths[some].max())
            here = np.arange(longest)[None, :] < lengths[some][:, None]
            rows = (starts[some][:, None] + np.arange(longest)[None, :])[here]
            parts = (torch.from_numpy(part).to(device) for part in (rows.astype(np.int64), np.flatnonzero(here), ~here))
            row, place, absent = parts
            yield Group(row, place, absent[:, None, None, :], longest)


class Layer:
    """A BERT layer whose attention also scores distances."""

    def __init__(self, shape: Shape, weights: Weights, at: str, places: Tensor, kernels: Kernels) -> None:
        self.heads, self.kernels = shape.heads, kernels
        self.scale = 1 / math.sqrt(3 * shape.hidden // shape.heads)
        names = [f"{at}.attention.self.{part}_proj" for part in ("query", "key", "value")]
        self.qkv = weights.linear(*names)
        weights_of, biases = self.qkv.weight.split(shape.hidden), self.qkv.bias.split(shape.hidden)
        query, key = (F.linear(places, weight, bias) for weight, bias in zip(weights_of[:2], biases[:2], strict=True))
        self.place_query, self.place_key = (
            part.view(len(places), shape.heads, -1).permute(1, 2, 0).contiguous() for part in (query * self.scale, key)
        )
        """Scaled queries, and keys, of every bucket of distances. Shape: [heads, head, buckets]."""
        self.out = weights.linear(f"{at}.attention.output.dense")
        self.up, self.down = weights.linear(f"{at}.intermediate.dense"), weights.linear(f"{at}.output.dense")
        self.norm1 = norm(weights, f"{at}.attention.output.LayerNorm", shape.epsilon)
        self.norm2 = norm(weights, f"{at}.output.LayerNorm", shape.epsilon)

    def next(self, x: States, groups: list[Group], table: Tensor, rows: Tensor | None = None) -> States:
        """The next layer's input; only the `rows`, if present.

        Shape: [tokens, hidden] to the same; with `rows` [sequences] to [sequences, hidden].
        """
        steps, qkv = self.kernels.steps, self.qkv(x.narrow)
        mixed = torch.zeros_like(x.narrow)
        for group in groups:
            mixed[group.rows] = self.mixed(qkv[group.rows], group, table[: group.width, : group.width])
        if rows is not None:
            mixed, x = mixed[rows], x.rows(rows)
        x = steps.add_norm(self.out.bare(mixed), self.out.bias, x.wide, self.norm1)
        inner = self.up.activated(x.narrow, self.kernels.activated)
        return steps.add_norm(self.down.bare(inner), self.down.bias, x.wide, self.norm2)

    def mixed(self, qkv: Tensor, group: Group, table: Tensor) -> Tensor:
        """Attention within each sequence of a group: [tokens, 3 x hidden] to [tokens, hidden]."""
        count, width = len(group.absent), group.width
        laid = qkv.new_zeros(count * width, qkv.shape[1])
        laid[group.places] = qkv
        query, key, value = laid.view(count, width, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        index = table.expand(count, self.heads, width, width)
        query = query * self.scale  # before the products, whose sums float16 has to hold
        scores = (query @ key.transpose(-1, -2)).float()
        scores += (query @ self.place_key).gather(-1, index)
        scores += (key @ self.place_query).gather(-1, index.transpose(-1, -2)).transpose(-1, -2)
        shares = scores.masked_fill_(group.absent, -math.inf).softmax(-1).to(value.dtype)
        return (shares @ value).transpose(1, 2).reshape(count * width, -1)[group.places]


class Classifier:
    """The one-label head: the state of each sequence's first token to one float32 logit."""

    def __init__(self, weights: Weights) -> None:
        self.dense, self.score = (weights.linear(part) for part in HEAD)

    def __call__(self, trunk: Trunk, batch: Packed) -> Tensor:
        """The float32 logit of every sequence, [sequences]."""
        return self.score(F.gelu(self.dense(trunk(batch, only_first=True).float()))).squeeze(-1)


def _network(shape: Shape, weights: Weights, kernels: Kernels) -> Network:
    trunk = Trunk(shape, weights, kernels)
    return Network(trunk, Classifier(weights))
