"""Reference implementation of the networks: one sequence at a time, numpy, float32, straight from the weight names.

Shares nothing with the code under test: no torch, no modules, no batches, no padding. `Mistakes` puts one known error
at a time into it, so that a test can show that its gate would have caught that error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Weights = Mapping[str, Array]
_erf = np.vectorize(math.erf, otypes=[np.float32])


@dataclass(frozen=True)
class Mistakes:
    """Errors seen in public code for these models; all off is the right computation."""

    rotary_base: float | None = None
    interleaved_rotary: bool = False
    renormalised_routing: bool = False
    expert_bias_weighted: bool = False
    positions_from_zero: bool = False
    pad_to: int = 0
    """Pad the sequence to this many tokens and pool the padding too."""
    attend_to_padding: bool = False


RIGHT = Mistakes()


@dataclass(frozen=True)
class Sent:
    """The experts that a network under test chose for each token; the reference follows near ties."""

    experts: Array
    """The chosen experts, [layers with experts, tokens, chosen]."""
    lead: float
    """Largest lead, in shares of the spread of a token's logits, of a skipped expert over a chosen one."""


def nomic_layers(
    w: Weights, c: Mapping[str, Any], ids: Sequence[int], wrong: Mistakes = RIGHT, sent: Sent | None = None
) -> list[Array]:
    """Returns hidden states [tokens, hidden] after the embedding and after each layer of NomicBert v2-MoE."""
    real, ids = len(ids), _padded(ids, c["pad_token_id"], wrong)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
    x = _norm(w, "emb_ln", x, c["layer_norm_epsilon"])
    states = [x]
    for i in range(c["n_layer"]):
        at = f"encoder.layers.{i}"
        q, k, v = np.split(_linear(w, f"{at}.attn.Wqkv", x), 3, axis=1)
        q, k = (_rotated(a, c["n_head"], wrong.rotary_base or c["rotary_emb_base"], wrong) for a in (q, k))
        mixed = _attention(q, k, v, c["n_head"], len(ids) if wrong.attend_to_padding else real)
        x = _norm(w, f"{at}.norm1", x + _linear(w, f"{at}.attn.out_proj", mixed), c["layer_norm_epsilon"])
        if f"{at}.mlp.router.layer.weight" in w:
            best = _best(x @ w[f"{at}.mlp.router.layer.weight"].T, c["moe_top_k"], sent, i // 2)
            y = np.stack([_experts(w, f"{at}.mlp", c, token, wrong, to) for token, to in zip(x, best, strict=True)])
        else:
            y = _linear(w, f"{at}.mlp.fc2", _gelu(_linear(w, f"{at}.mlp.fc1", x)))
        x = _norm(w, f"{at}.norm2", x + y, c["layer_norm_epsilon"])
        states.append(x)
    return states


def bert_layers(
    w: Weights, c: Mapping[str, Any], ids: Sequence[int], wrong: Mistakes = RIGHT, at: str = ""
) -> list[Array]:
    """Returns hidden states [tokens, hidden] after the embedding and after each layer of BERT or XLM-RoBERTa."""
    real, ids = len(ids), _padded(ids, c["pad_token_id"], wrong)
    first = 0 if c["model_type"] == "bert" or wrong.positions_from_zero else c["pad_token_id"] + 1
    x = w[f"{at}embeddings.word_embeddings.weight"][ids]
    x = x + w[f"{at}embeddings.position_embeddings.weight"][first : first + len(ids)]
    x = x + w[f"{at}embeddings.token_type_embeddings.weight"][0]
    x = _norm(w, f"{at}embeddings.LayerNorm", x, c["layer_norm_eps"])
    states = [x]
    for i in range(c["num_hidden_layers"]):
        here = f"{at}encoder.layer.{i}"
        q, k, v = (_linear(w, f"{here}.attention.self.{name}", x) for name in ("query", "key", "value"))
        mixed = _attention(q, k, v, c["num_attention_heads"], len(ids) if wrong.attend_to_padding else real)
        mixed = _linear(w, f"{here}.attention.output.dense", mixed)
        x = _norm(w, f"{here}.attention.output.LayerNorm", mixed + x, c["layer_norm_eps"])
        y = _linear(w, f"{here}.output.dense", _gelu(_linear(w, f"{here}.intermediate.dense", x)))
        x = _norm(w, f"{here}.output.LayerNorm", y + x, c["layer_norm_eps"])
        states.append(x)
    return states


def logit(w: Weights, c: Mapping[str, Any], ids: Sequence[int], wrong: Mistakes = RIGHT) -> float:
    """Returns the one-label score of XLM-RoBERTa for one pair."""
    first = bert_layers(w, c, ids, wrong, at="roberta.")[-1][:1]
    return float(_linear(w, "classifier.out_proj", np.tanh(_linear(w, "classifier.dense", first)))[0, 0])


def unit_mean(states: Array) -> Array:
    """Returns the mean of all rows, scaled to length 1."""
    mean = states.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _padded(ids: Sequence[int], pad: int, wrong: Mistakes) -> list[int]:
    return [*ids, *[pad] * (wrong.pad_to - len(ids))]


def _linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _norm(w: Weights, name: str, x: Array, epsilon: float) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(epsilon))
    return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    return x * (1 + _erf(x / np.float32(math.sqrt(2)))) / 2


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _attention(q: Array, k: Array, v: Array, heads: int, keys: int) -> Array:
    size = q.shape[1] // heads
    columns = [slice(h * size, (h + 1) * size) for h in range(heads)]
    scores = [q[:, at] @ k[:keys, at].T / np.float32(math.sqrt(size)) for at in columns]
    return np.concatenate([_softmax(s) @ v[:keys, at] for s, at in zip(scores, columns, strict=True)], axis=1)


def _rotated(x: Array, heads: int, base: float, wrong: Mistakes) -> Array:
    size = x.shape[1] // heads
    out = x.copy()
    for i in range(size // 2):
        angle = np.arange(len(x)) * base ** (-2 * i / size)
        cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        for start in range(0, x.shape[1], size):
            a, b = (
                (start + 2 * i, start + 2 * i + 1) if wrong.interleaved_rotary else (start + i, start + i + size // 2)
            )
            out[:, a] = x[:, a] * cosine - x[:, b] * sine
            out[:, b] = x[:, b] * cosine + x[:, a] * sine
    return out


def _best(logits: Array, count: int, sent: Sent | None, layer: int) -> Array:
    """Returns the likeliest experts of each token [tokens, count], or those in `sent`."""
    best = np.argsort(-logits)[:, :count]
    if sent is None:
        return best
    taken = sent.experts[layer]
    assert all(len(set(row)) == count for row in taken.tolist()), "an expert twice"
    last, passed = (np.take_along_axis(logits, experts, 1).min(1) for experts in (taken, best))
    lead = ((passed - last) / logits.std(1)).max()
    assert lead <= sent.lead, f"no tie: an expert passed over was ahead by {lead} of the spread"
    return taken


def _experts(w: Weights, at: str, c: Mapping[str, Any], token: Array, wrong: Mistakes, best: Array) -> Array:
    likely = _softmax(w[f"{at}.router.layer.weight"] @ token)
    shares = likely[best] / likely[best].sum() if wrong.renormalised_routing else likely[best]
    total = np.zeros_like(token)
    for expert, share in zip(best, shares, strict=True):
        rows = slice(expert * c["n_inner"], (expert + 1) * c["n_inner"])
        inner = _gelu(w[f"{at}.experts.mlp.w1"][rows] @ token)
        out = inner @ w[f"{at}.experts.mlp.w2"][rows]
        total += share * (out + w[f"{at}.experts.bias"] if wrong.expert_bias_weighted else out)
    return total if wrong.expert_bias_weighted else total + w[f"{at}.experts.bias"]
