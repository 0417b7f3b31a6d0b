"""Right answers, computed independently: float32, one sequence at a time, straight from the weights by name.

It shares no code with the serving backends: no modules, no batches, no padding, token ids from the tokenizer's own
templates. `tests/benchmarks` compares it with the numpy reference of the encoders' tests. It runs as a program, so that
it leaves no memory on the GPU: `python -m benchmarks.oracle DEVICE POOL.json ANSWERS.npz`. With numbers of texts after
it, the answers are their vectors with other routing ties.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

LIMIT = 512
ROTARY_HALVES = 2
TIE_DRAWS = 32
TIE_SHARE = 0.004
"""The share of the spread of a token's router logits by which 16 bits may move them.

With this share the float32 network gave exactly the distances of 16-bit answers beyond 1e-4 (5.27e-4 for 5.27e-4,
1.65e-4 for 1.66e-4; 80 texts, CPU, 2026-11-21).
"""


class Network:
    """A checkpoint's weights in float32, and the operations of both families."""

    def __init__(self, directory: Path, device: str) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text())
        self.w = load_file(directory / "model.safetensors", device=device)
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.device = device

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Applies the projection of this name."""
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Applies the layer norm of that name."""
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-5)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
        """Returns softmax attention over one sequence, [tokens, hidden]."""
        q, k, v = (part.view(len(part), heads, -1).transpose(0, 1) for part in (q, k, v))
        likely = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(dim=-1)
        return (likely @ v).transpose(0, 1).flatten(1)


class Reranker(Network):
    """XLM-RoBERTa with a one-label head."""

    def __call__(self, query: str, passage: str) -> tuple[float, int]:
        """Returns the logit of a pair and its number of tokens; the pair must fit without truncation."""
        ids = self.tokenizer.encode(query, passage).ids
        assert len(ids) <= LIMIT, f"a pair of {len(ids)} tokens; the oracle does not cut"
        x = self.embedded(torch.tensor(ids, device=self.device))
        for number in range(self.config["num_hidden_layers"]):
            x = self.layer(f"roberta.encoder.layer.{number}", x)
        hidden = torch.tanh(self.linear("classifier.dense", x[:1]))
        return float(self.linear("classifier.out_proj", hidden)), len(ids)

    def embedded(self, ids: Tensor) -> Tensor:
        """Returns word, position (from 2 on) and segment rows, added and normalised."""
        at = "roberta.embeddings"
        x = self.w[f"{at}.word_embeddings.weight"][ids] + self.w[f"{at}.token_type_embeddings.weight"][0]
        x = x + self.w[f"{at}.position_embeddings.weight"][2 : 2 + len(ids)]
        return self.norm(f"{at}.LayerNorm", x)

    def layer(self, at: str, x: Tensor) -> Tensor:
        """Returns states after the layer, [tokens, hidden]."""
        q, k, v = (self.linear(f"{at}.attention.self.{name}", x) for name in ("query", "key", "value"))
        mixed = self.attention(q, k, v, self.config["num_attention_heads"])
        x = self.norm(f"{at}.attention.output.LayerNorm", x + self.linear(f"{at}.attention.output.dense", mixed))
        inner = F.gelu(self.linear(f"{at}.intermediate.dense", x))
        return self.norm(f"{at}.output.LayerNorm", x + self.linear(f"{at}.output.dense", inner))


class Embedder(Network):
    """NomicBert v2 with mixture of experts.

    A token whose second and third expert are almost equally likely may go to either in 16 bits, and both answers are
    right. `tie_share` moves the router's logits by that share of their spread, which decides such ties.
    """

    tie_share = 0.0

    def __call__(self, task: str, text: str) -> tuple[np.ndarray, int]:
        """Returns the unnormalised mean of all token states, and the number of tokens after truncation."""
        ids = self.tokenizer.encode(f"{task}: {text}").ids
        ids = ids if len(ids) <= LIMIT else [*ids[: LIMIT - 1], ids[-1]]
        at = "embeddings"
        x = self.w[f"{at}.word_embeddings.weight"][torch.tensor(ids, device=self.device)]
        x = self.norm("emb_ln", x + self.w[f"{at}.token_type_embeddings.weight"][0])
        for number in range(self.config["n_layer"]):
            x = self.layer(f"encoder.layers.{number}", x)
        return x.mean(dim=0).cpu().numpy(), len(ids)

    def layer(self, at: str, x: Tensor) -> Tensor:
        """Returns states after the layer, [tokens, hidden]."""
        q, k, v = self.linear(f"{at}.attn.Wqkv", x).chunk(3, dim=-1)
        heads = self.config["n_head"]
        mixed = self.attention(self.rotated(q, heads), self.rotated(k, heads), v, heads)
        x = self.norm(f"{at}.norm1", x + self.linear(f"{at}.attn.out_proj", mixed))
        if f"{at}.mlp.router.layer.weight" in self.w:
            y = self.experts(f"{at}.mlp", x)
        else:
            y = self.linear(f"{at}.mlp.fc2", F.gelu(self.linear(f"{at}.mlp.fc1", x)))
        return self.norm(f"{at}.norm2", x + y)

    def rotated(self, x: Tensor, heads: int) -> Tensor:
        """Returns the two halves of each head rotated by the position's angles, in float64."""
        parts = x.double().view(len(x), heads, ROTARY_HALVES, -1)
        half = parts.shape[-1]
        rates = self.config["rotary_emb_base"] ** -(torch.arange(half, device=x.device, dtype=torch.float64) / half)
        angles = torch.arange(len(x), device=x.device, dtype=torch.float64)[:, None, None] * rates
        left, right = parts[:, :, 0], parts[:, :, 1]
        halves = (left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin())
        return torch.cat(halves, dim=-1).flatten(1).to(x.dtype)

    def experts(self, at: str, x: Tensor) -> Tensor:
        """Applies every expert to every token, weighted by the softmax over all for the best two, else by 0."""
        logits = F.linear(x, self.w[f"{at}.router.layer.weight"])
        logits = logits + torch.randn_like(logits) * logits.std(1, keepdim=True) * self.tie_share
        likely = logits.softmax(dim=-1)
        best = likely.topk(self.config["moe_top_k"], dim=-1).indices
        shares = torch.zeros_like(likely).scatter(1, best, likely.gather(1, best))
        size, h = self.config["n_inner"], x.shape[-1]
        ups, downs = (self.w[f"{at}.experts.mlp.{name}"].view(-1, size, h) for name in ("w1", "w2"))
        inner = F.gelu(torch.einsum("th,eih->eti", x, ups))
        return torch.einsum("eti,eih,te->th", inner, downs, shares) + self.w[f"{at}.experts.bias"]


@torch.inference_mode()
def answers(pool: dict[str, Any], device: str) -> dict[str, np.ndarray]:
    """Returns vectors, logits and token counts of everything in the pool, in its order."""
    torch.backends.cuda.matmul.allow_tf32 = False
    embedder = Embedder(Path(pool["checkpoints"]["embedder"]), device)
    vectors = [embedder(*text) for text in pool["texts"]]
    del embedder
    reranker = Reranker(Path(pool["checkpoints"]["reranker"]), device)
    logits = [[reranker(row["query"], passage) for passage in row["passages"]] for row in pool["rankings"]]
    return {
        "vectors": np.array([vector for vector, _ in vectors], dtype=np.float32),
        "text_tokens": np.array([count for _, count in vectors], dtype=np.int32),
        "logits": np.array([[value for value, _ in row] for row in logits], dtype=np.float32),
        "pair_tokens": np.array([[count for _, count in row] for row in logits], dtype=np.int32),
    }


@torch.inference_mode()
def ties(pool: dict[str, Any], device: str, texts: list[int]) -> dict[str, np.ndarray]:
    """Returns vectors of each of `texts` (numbers in the pool, the keys) with other routing ties, [draws, width]."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    embedder = Embedder(Path(pool["checkpoints"]["embedder"]), device)
    embedder.tie_share = TIE_SHARE
    drawn = {text: [embedder(*pool["texts"][text])[0] for _ in range(TIE_DRAWS)] for text in texts}
    return {str(text): np.array(vectors, dtype=np.float32) for text, vectors in drawn.items()}


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    texts = [int(word) for word in sys.argv[4:]]
    np.savez(sys.argv[3], **(ties(request, sys.argv[1], texts) if texts else answers(request, sys.argv[1])))
