"""BERT and RoBERTa trunks, and the one-label classification heads of both, over packed sequences.

The two trunks are one network. They differ in where positions start: BERT counts from 0, RoBERTa (XLM-RoBERTa,
CamemBERT) from padding_idx + 1 over the tokens that are not `<pad>`, anew in every sequence. Segment ids are 0 in
RoBERTa and in single texts. In BERT, the second text of a pair has segment 1: its positions point into a second half of
the position table, whose rows include the difference of the two segments. So a pass needs no row of segment ids.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .choices import Kernels
from .family import Family, Network, embeds, must_be, reranks
from .packing import Packed, firsts
from .plain import States
from .weights import Shapes, Weights, norm, pair

FIXED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
Head = Literal["", "bert", "roberta"]
HEADS: dict[Head, tuple[str, str]] = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
}
"""The two projections of a head, by their names in the checkpoint."""


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
    head: Head = ""
    """The one-label head; its family's name is also the prefix of the trunk's tensors."""

    @property
    def prefix(self) -> str:
        """Prefix of the trunk's names in the checkpoint."""
        return f"{self.head}." if self.head else ""


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
    if s.head:
        dense, score = HEADS[s.head]
        tensors |= pair(dense, h, h) | pair(score, 1, h)
    return tensors


class Trunk:
    """Packed token ids to hidden states [tokens, hidden]."""

    # Logits reach ±10, where neighbouring fp16 numbers lie 0.008 apart; the head is 0.2 % of the weights.
    FLOAT32 = r"^(classifier|bert\.pooler)\."

    def __init__(self, shape: Shape, weights: Weights, kernels: Kernels) -> None:
        at = f"{shape.prefix}embeddings"
        self.kernels = kernels
        self.word, self.place = weights[f"{at}.word_embeddings.weight"], weights[f"{at}.position_embeddings.weight"]
        segments = weights[f"{at}.token_type_embeddings.weight"]
        self.segment = segments[0]
        if shape.head == "bert":
            second = self.place.float() + (segments[1].float() - segments[0].float())
            self.place = torch.cat((self.place, second.to(self.place.dtype)))
        self.norm = norm(weights, f"{at}.LayerNorm", shape.epsilon)
        self.layers = [
            Layer(shape, weights, f"{shape.prefix}encoder.layer.{index}", kernels) for index in range(shape.layers)
        ]

    def __call__(self, batch: Packed, only_first: bool = False) -> Tensor:
        """Hidden states [tokens, hidden]; with `only_first`, of each sequence's first token, [sequences, hidden].

        The last layer then computes other tokens only as far as attention needs them: 3 % less work at 128 tokens, with
        the same result.
        """
        x = self.kernels.steps.embed(batch.ids, batch.positions, self.word, self.place, self.segment, self.norm)
        for layer in self.layers[:-1]:
            x = layer(x, batch)
        return self.layers[-1](x, batch, firsts(batch) if only_first else None).wide


class Layer:
    """Attention and feed-forward, each followed by residual addition and LayerNorm."""

    def __init__(self, shape: Shape, weights: Weights, at: str, kernels: Kernels) -> None:
        self.heads, self.kernels = shape.heads, kernels
        names = [f"{at}.attention.self.{name}" for name in ("query", "key", "value")]
        self.qkv = weights.linear(*names)
        self.out = weights.linear(f"{at}.attention.output.dense")
        self.up, self.down = weights.linear(f"{at}.intermediate.dense"), weights.linear(f"{at}.output.dense")
        self.norm1 = norm(weights, f"{at}.attention.output.LayerNorm", shape.epsilon)
        self.norm2 = norm(weights, f"{at}.output.LayerNorm", shape.epsilon)

    def __call__(self, x: States, batch: Packed, rows: Tensor | None = None) -> States:
        """The next layer's input; only the `rows`, if present.

        Shape: [tokens, hidden] to the same; with `rows` [sequences] to [sequences, hidden].
        """
        kernels = self.kernels
        output_scale = self.out.input_scale if rows is None else 0.0  # 8-bit products do not pay off for few rows
        mixed = kernels.attend(self.qkv(x.narrow), self.heads, batch, output_scale)
        if rows is not None:
            mixed, x = mixed[rows], x.rows(rows)
        x = kernels.steps.add_norm(self.out.bare(mixed), self.out.bias, x.wide, self.norm1)
        inner = self.up.activated(x.narrow, kernels.activated)
        return kernels.steps.add_norm(self.down.bare(inner), self.down.bias, x.wide, self.norm2)


class Classifier:
    """The one-label head: the state of each sequence's first token to one float32 logit."""

    def __init__(self, weights: Weights, head: Head) -> None:
        self.dense, self.score = (weights.linear(name) for name in HEADS[head])

    def __call__(self, trunk: Trunk, batch: Packed) -> Tensor:
        """The float32 logit of every sequence, [sequences]."""
        return self.score(torch.tanh(self.dense(trunk(batch, only_first=True).float()))).squeeze(-1)


@embeds("BertModel", "XLMRobertaModel", "RobertaModel", "CamembertModel")
@reranks("XLMRobertaForSequenceClassification", "RobertaForSequenceClassification", "BertForSequenceClassification")
def read(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a BERT or RoBERTa checkpoint.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    must_be(directory, FIXED | config, FIXED)
    roberta, classifies = not name.startswith("Bert"), name.endswith("ForSequenceClassification")
    padding = config["pad_token_id"] if roberta else config.get("pad_token_id", 0)
    head: Head = ("roberta" if roberta else "bert") if classifies else ""
    shape = Shape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        segments=config["type_vocab_size"],
        epsilon=config["layer_norm_eps"],
        padding_id=padding if roberta else None,
        head=head,
    )
    return family_of(shape, padding)


def family_of(shape: Shape, padding: int) -> Family:
    """The family of a shape whose filling token is `padding`."""
    roberta = shape.padding_id is not None
    return Family(
        build=partial(_network, shape),
        shapes=partial(shapes, shape),
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions - padding - 1 if roberta else shape.positions,
        padding_id=padding,
        float32=Trunk.FLOAT32,
        counted_from=padding + 1 if roberta else 0,
        uncounted=padding if roberta else -1,
        second_rows=shape.positions if shape.head == "bert" else 0,
        longest_first=shape.head == "bert",
    )


def _network(shape: Shape, weights: Weights, kernels: Kernels) -> Network:
    trunk = Trunk(shape, weights, kernels)
    return Network(trunk, Classifier(weights, shape.head) if shape.head else None)
