"""BERT and XLM-RoBERTa trunks and the XLM-RoBERTa classification head; attribute names are the checkpoint's own.

The two trunks are one network. They differ in where positions start: BERT counts from 0, XLM-RoBERTa from
padding_idx + 1 over the tokens that are not `<pad>`, anew in every row. Segment ids are 0 everywhere: single texts in
BERT, everything in XLM-RoBERTa.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention import attend, gelu, real_tokens, split_heads


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


class Trunk(nn.Module):
    """Token ids [rows, width] and lengths [rows] to hidden states [rows, width, hidden]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(shape) for _ in range(shape.layers))})

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        real = real_tokens(lengths, ids.shape[1])
        x = self.embeddings(ids, real)
        for layer in self.encoder["layer"]:
            x = layer(x, real)
        return x


class Embeddings(nn.Module):
    """Word, position and segment rows added up and normalised."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.padding_id = shape.padding_id
        self.word_embeddings = nn.Embedding(shape.vocabulary, shape.hidden)
        self.position_embeddings = nn.Embedding(shape.positions, shape.hidden)
        self.token_type_embeddings = nn.Embedding(shape.segments, shape.hidden)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        x = self.word_embeddings(ids) + self.position_embeddings(self.positions(ids, real))
        return self.LayerNorm(x + self.token_type_embeddings.weight[0])

    def positions(self, ids: Tensor, real: Tensor) -> Tensor:
        """Row of the position table for each token; padding reads any row, since nothing reads padding."""
        if self.padding_id is None:
            return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        counted = (ids != self.padding_id) & real  # a literal <pad> inside a text is not counted, as in training
        return counted.long().cumsum(1) * counted + self.padding_id


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        hidden, inner = shape.hidden, shape.inner
        qkv = nn.ModuleDict({name: nn.Linear(hidden, hidden) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": qkv, "output": Residual(hidden, shape)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(hidden, inner)})
        self.output = Residual(inner, shape)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        q, k, v = (split_heads(linear(x), self.heads) for linear in self.attention["self"].values())
        x = self.attention["output"](attend(q, k, v, real), x)
        return self.output(gelu(self.intermediate["dense"](x)), x)


class Residual(nn.Module):
    """A projection back to the hidden size, added to what came in, normalised."""

    def __init__(self, inputs: int, shape: Shape) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, shape.hidden)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + before)


class Classifier(nn.Module):
    """XLM-RoBERTa with its one-label head: token ids and lengths to one float32 logit per row."""

    # Logits reach ±10, where neighbouring fp16 numbers lie 0.008 apart; the head is 0.2 % of the weights.
    FLOAT32 = r"^classifier\."

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.roberta = Trunk(shape)
        self.classifier = nn.ModuleDict(
            {"dense": nn.Linear(shape.hidden, shape.hidden), "out_proj": nn.Linear(shape.hidden, 1)}
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        first = self.roberta(ids, lengths)[:, 0].float()
        return self.classifier["out_proj"](torch.tanh(self.classifier["dense"](first))).squeeze(-1)
