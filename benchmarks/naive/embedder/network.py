"""NomicBert v2-MoE in a plain form: padded rows, and each expert's tokens selected through Python lists.

The published remote code has this loop if no special kernels are installed: for every expert of every
expert layer two tensors go to the host as lists and back, so the GPU waits for the host 48 times in a forward pass.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F


class NomicBert:
    """Maps token ids and mask [rows, width] to hidden states [rows, width, hidden]."""

    def __init__(self, path: str, dtype: torch.dtype, device: torch.device) -> None:
        self.config = json.loads((Path(path) / "config.json").read_text())
        stored = load_file(Path(path) / "model.safetensors")
        self.w = {name: value.to(dtype).to(device) for name, value in stored.items()}

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        w = self.w
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm("emb_ln", x)
        cosine, sine = self._rotation(ids.shape[1], x)
        for number in range(self.config["n_layer"]):
            at = f"encoder.layers.{number}"
            x = self._norm(f"{at}.norm1", x + self._attention(at, x, mask, cosine, sine))
            mlp = self._experts if f"{at}.mlp.router.layer.weight" in w else self._dense
            x = self._norm(f"{at}.norm2", x + mlp(f"{at}.mlp", x))
        return x

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        epsilon = self.config["layer_norm_epsilon"]
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], epsilon)

    def _rotation(self, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
        size = self.config["n_embd"] // self.config["n_head"]
        steps = torch.arange(0, size, 2, device=like.device, dtype=torch.float32) / size
        angles = torch.outer(torch.arange(width, device=like.device), self.config["rotary_emb_base"] ** -steps)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def _attention(self, at: str, x: Tensor, mask: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        rows, width, hidden = x.shape
        heads = self.config["n_head"]
        qkv = self._linear(f"{at}.attn.Wqkv", x).view(rows, width, 3, heads, hidden // heads)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        q, k = (part * cosine + _rotate_half(part) * sine for part in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        return self._linear(f"{at}.attn.out_proj", mixed.transpose(1, 2).reshape(rows, width, hidden))

    def _dense(self, at: str, x: Tensor) -> Tensor:
        return self._linear(f"{at}.fc2", F.gelu(self._linear(f"{at}.fc1", x)))

    def _experts(self, at: str, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        experts, chosen = self.config["num_experts"], self.config["moe_top_k"]
        likely = F.linear(tokens, self.w[f"{at}.router.layer.weight"]).float().softmax(dim=-1)
        weights, picked = likely.topk(chosen, dim=-1)
        weights = weights.to(x.dtype)
        places = F.one_hot(picked, experts).permute(2, 1, 0)
        ups, downs = (self.w[f"{at}.experts.mlp.{name}"].chunk(experts) for name in ("w1", "w2"))
        out = torch.zeros_like(tokens)
        for expert in range(experts):
            rank, token = torch.where(places[expert])
            if token.shape[0] == 0:
                continue
            ranks, mine = rank.tolist(), token.tolist()
            inner = F.gelu(tokens[mine] @ ups[expert].t())
            out.index_add_(0, token, (inner @ downs[expert]) * weights[mine, ranks, None])
        return out.reshape(x.shape) + self.w[f"{at}.experts.bias"]


def _rotate_half(x: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)
