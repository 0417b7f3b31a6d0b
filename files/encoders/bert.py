"""BERT and XLM-RoBERTa trunks and the XLM-RoBERTa classification head over packed sequences.

The two trunks are one network. They differ in where positions start: BERT counts from 0, XLM-RoBERTa from
padding_idx + 1 over the tokens that are not `<pad>`, anew in every sequence. Segment ids are 0 everywhere: single
texts in BERT, everything in XLM-RoBERTa.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .choices import Kernels
from .packing import Packed
from .plain import States
from .weights import Shapes, Weights, norm, pair


@dataclass(frozen=True)
class Shape:
    """Sizes of one trunk, as config.json declares them."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    inner: int
    positions: int
    segments: int
    epsilon: float
    padding_id: int | None
    """XLM-RoBERTa's padding_idx; None for BERT, whose positions start at 0."""
    classifies: bool = False
    """Whether the one-label head of XLMRobertaForSequenceClassification follows."""

    @property
    def prefix(self) -> str:
        """What the trunk's names begin with in the checkpoint."""
        return "roberta." if self.classifies else ""


def shapes(s: Shape) -> Shapes:
    """Name and shape of every tensor of the checkpoint."""
    at, h = f"{s.prefix}embeddings", s.hidden
    tensors: Shapes = {
        f"{at}.word_embeddings.weight": (s.vocabulary, h),
        f"{at}.position_embeddings.weight": (s.positions, h),
        f"{at}.token_type_embeddings.weight": (s.segments, h),
        **pair(f"{at}.LayerNorm", h),
    }
    for index in range(s.layers):
        layer = f"{s.prefix}encoder.layer.{index}"
        for name in ("query", "key", "value"):
            tensors |= pair(f"{layer}.attention.self.{name}", h, h)
        tensors |= pair(f"{layer}.attention.output.dense", h, h) | pair(f"{layer}.attention.output.LayerNorm", h)
        tensors |= pair(f"{layer}.intermediate.dense", s.inner, h) | pair(f"{layer}.output.dense", h, s.inner)
        tensors |= pair(f"{layer}.output.LayerNorm", h)
    return tensors | (pair("classifier.dense", h, h) | pair("classifier.out_proj", 1, h) if s.classifies else {})


class Trunk:
    """Packed token ids to hidden states [tokens, hidden]."""

    # Logits reach ±10, where neighbouring fp16 numbers lie 0.008 apart; the head is 0.2 % of the weights.
    FLOAT32 = r"^classifier\."

    def __init__(self, shape: Shape, weights: Weights, kernels: Kernels) -> None:
        at = f"{shape.prefix}embeddings"
        self.kernels = kernels
        self.word, self.place = weights[f"{at}.word_embeddings.weight"], weights[f"{at}.position_embeddings.weight"]
        self.segment = weights[f"{at}.token_type_embeddings.weight"][0]
        self.norm = norm(weights, f"{at}.LayerNorm", shape.epsilon)
        self.layers = [
            Layer(shape, weights, f"{shape.prefix}encoder.layer.{index}", kernels) for index in range(shape.layers)
        ]

    def __call__(self, batch: Packed, only_first: bool = False) -> Tensor:
        """Hidden states [tokens, hidden]; with `only_first` those of each sequence's first token, [sequences, hidden].

        Nobody reads the others then, so the last layer computes them only as far as attention needs: at 128 tokens
        3 % less work, with the same result.
        """
        x = self.kernels.steps.embed(batch.ids, batch.positions, self.word, self.place, self.segment, self.norm)
        for layer in self.layers[:-1]:
            x = layer(x, batch)
        return self.layers[-1](x, batch, firsts(batch) if only_first else None).wide


class Layer:
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self, shape: Shape, weights: Weights, at: str, kernels: Kernels) -> None:
        self.heads, self.kernels = shape.heads, kernels
        names = [f"{at}.attention.self.{name}" for name in ("query", "key", "value")]
        self.qkv = weights.linear(*names)
        self.out = weights.linear(f"{at}.attention.output.dense")
        self.up, self.down = weights.linear(f"{at}.intermediate.dense"), weights.linear(f"{at}.output.dense")
        self.norm1 = norm(weights, f"{at}.attention.output.LayerNorm", shape.epsilon)
        self.norm2 = norm(weights, f"{at}.output.LayerNorm", shape.epsilon)

    def __call__(self, x: States, batch: Packed, rows: Tensor | None = None) -> States:
        """The next states; of `rows` alone where they are given.

        Shape: [tokens, hidden] to the same; with `rows` [sequences] to [sequences, hidden].
        """
        kernels = self.kernels
        output_scale = self.out.input_scale if rows is None else 0.0  # few rows: nothing to win
        mixed = kernels.attend(self.qkv(x.narrow), self.heads, batch, output_scale)
        if rows is not None:
            mixed, x = mixed[rows], x.rows(rows)
        x = kernels.steps.add_norm(self.out.bare(mixed), self.out.bias, x.wide, self.norm1)
        inner = self.up.activated(x.narrow, kernels.activated)
        return kernels.steps.add_norm(self.down.bare(inner), self.down.bias, x.wide, self.norm2)


class Classifier:
    """The one-label head: the state of each sequence's first token to one float32 logit."""

    def __init__(self, weights: Weights) -> None:
        self.dense, self.score = weights.linear("classifier.dense"), weights.linear("classifier.out_proj")

    def __call__(self, states: Tensor) -> Tensor:
        """One float32 logit per sequence: [sequences, hidden] to [sequences]."""
        return self.score(torch.tanh(self.dense(states.float()))).squeeze(-1)


def firsts(batch: Packed) -> Tensor:
    """Row of every sequence's first token, [sequences]; room without a sequence gives some row that nobody reads."""
    return batch.starts[:-1].clamp(max=len(batch.ids) - 1)
