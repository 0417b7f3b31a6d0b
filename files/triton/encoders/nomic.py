"""NomicBert v2 with mixture of experts (nomic-embed-text-v2-moe); attribute names are the checkpoint's own.

Four details decide whether the vectors are right, and a test holds each: rotary halves (not interleaved pairs) with
base 10000 from config.json; the two routing weights used as the softmax over all experts gave them, not renormalised;
one bias for all experts, added once after the weighted sum; experts on every second layer, layer 1 the first.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention import attend, gelu, real_tokens, split_heads


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


class NomicMoe(nn.Module):
    """Token ids [rows, width] and lengths [rows] to hidden states [rows, width, hidden]."""

    # Routing picks experts by small differences of logits: in 16 bits 1 to 4 % of the tokens would go elsewhere.
    FLOAT32 = r"\.router\.layer\.weight$"

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(shape.vocabulary, shape.hidden),
                "token_type_embeddings": nn.Embedding(shape.segments, shape.hidden),
            }
        )
        self.emb_ln = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(Layer(shape, i) for i in range(shape.layers))})

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        real = real_tokens(lengths, ids.shape[1])
        segment = self.embeddings["token_type_embeddings"].weight[0]
        x = self.emb_ln(self.embeddings["word_embeddings"](ids) + segment)
        rotation = rotary_table(ids.shape[1], self.shape.hidden // self.shape.heads, self.shape.rotary_base, ids.device)
        for layer in self.encoder["layers"]:
            x = layer(x, real, rotation)
        return x


class Layer(nn.Module):
    """Attention and a dense or expert feed-forward, each added to its input and normalised after."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.attn = Attention(shape)
        self.norm1 = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.mlp = Experts(shape) if index % shape.moe_every == 1 else Dense(shape)
        self.norm2 = nn.LayerNorm(shape.hidden, eps=shape.epsilon)

    def forward(self, x: Tensor, real: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        x = self.norm1(self.attn(x, real, rotation) + x)
        return self.norm2(self.mlp(x) + x)


class Attention(nn.Module):
    """Multi-head attention with rotated queries and keys; one projection holds q, k and v in this order."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.Wqkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out_proj = nn.Linear(shape.hidden, shape.hidden)

    def forward(self, x: Tensor, real: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = (split_heads(part, self.heads) for part in self.Wqkv(x).chunk(3, dim=-1))
        return self.out_proj(attend(rotate(q, rotation), rotate(k, rotation), v, real))


class Dense(nn.Module):
    """Feed-forward of the layers without experts."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc1 = nn.Linear(shape.hidden, shape.inner)
        self.fc2 = nn.Linear(shape.inner, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(gelu(self.fc1(x)))


class Experts(nn.Module):
    """Each token through its `chosen` most likely experts, weighted by the router's softmax in float32."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.count, self.chosen = shape.experts, shape.chosen
        self.router = nn.ModuleDict({"layer": nn.Linear(shape.hidden, shape.experts, bias=False)})
        self.experts = ExpertWeights(shape)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        weights, experts = self.router["layer"](tokens.float()).softmax(-1).topk(self.chosen)
        order = experts.flatten().argsort(stable=True)
        rows = order // self.chosen
        counts = experts.flatten().bincount(minlength=self.count).tolist()  # the one read-back of this layer
        mixed = self.experts.mlp(tokens[rows].split(counts)).float() * weights.flatten()[order, None]
        summed = torch.zeros_like(tokens, dtype=torch.float32).index_add_(0, rows, mixed)
        return (summed + self.experts.bias).to(x.dtype).view_as(x)


class ExpertWeights(nn.Module):
    """All experts' matrices, expert axis outermost, and the bias they share."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.mlp = ExpertMatrices(shape)
        self.bias = nn.Parameter(torch.empty(shape.hidden))


class ExpertMatrices(nn.Module):
    """Two stacks of matrices; expert e owns rows e * inner to (e + 1) * inner of both.

    w1 is used transposed, w2 as it is stored.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.count = shape.experts
        self.w1 = nn.Parameter(torch.empty(shape.experts * shape.inner, shape.hidden))
        self.w2 = nn.Parameter(torch.empty(shape.experts * shape.inner, shape.hidden))

    def forward(self, parts: tuple[Tensor, ...]) -> Tensor:
        pairs = zip(parts, self.w1.chunk(self.count), self.w2.chunk(self.count), strict=True)
        return torch.cat([gelu(part @ up.T) @ down for part, up, down in pairs])


def rotary_table(width: int, head: int, base: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine [width, head] of every position, in float32; the second half repeats the first."""
    frequencies = base ** (-torch.arange(0, head, 2, dtype=torch.float32, device=device) / head)
    angles = torch.outer(torch.arange(width, dtype=torch.float32, device=device), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """`x` [rows, heads, width, head] turned by its position: value i is paired with value i + head / 2."""
    cosine, sine = rotation
    left, right = x.float().chunk(2, dim=-1)
    return (x.float() * cosine + torch.cat((-right, left), dim=-1) * sine).to(x.dtype)
