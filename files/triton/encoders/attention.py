"""Softmax attention within each of many packed sequences: the implementations there may be, best first.

Every one is a function of query, key and value [tokens, heads, head], int32 `starts` [sequences + 1] and the length of
the longest sequence, and gives [tokens, heads, head]. Which of them a machine has depends on its torch release and on
what else its image carries, so each is looked up by name here and tried by `choices` before it is used.

    fa3        flash_attn_interface (FlashAttention-3, in the TensorRT-LLM images)
    varlen     torch.nn.attention.varlen (torch 2.10 and later)
    aten       the operator under it, private, there since torch 2.2
    fa2        flash_attn (FlashAttention-2)
    sequences  one scaled_dot_product_attention per sequence: everywhere, and the only one on the CPU and in float32
"""

import importlib
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

Attention = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]


def sequences(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int) -> Tensor:
    """One sequence at a time; reads `starts` back to the host."""
    out = torch.empty_like(query)
    ends = starts.tolist()
    for first, end in pairwise(ends):
        if end > first:
            q, k, v = (part[None, first:end].transpose(1, 2) for part in (query, key, value))
            out[first:end] = F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
    return out


def fa3() -> Attention:
    """FlashAttention-3."""
    return _flash(importlib.import_module("flash_attn_interface").flash_attn_varlen_func)


def fa2() -> Attention:
    """FlashAttention-2."""
    return _flash(importlib.import_module("flash_attn").flash_attn_varlen_func)


def varlen() -> Attention:
    """torch's own; called with the arguments that all its releases share."""
    run = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    return lambda q, k, v, starts, longest: run(q, k, v, starts, starts, longest, longest)


def aten() -> Attention:
    """The operator under torch's own."""
    run = torch.ops.aten._flash_attention_forward
    return lambda q, k, v, starts, longest: run(q, k, v, starts, starts, longest, longest, 0.0, False, False)[0]


def _flash(run: Callable[..., Tensor | tuple[Tensor, ...]]) -> Attention:
    def attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int) -> Tensor:
        out = run(q, k, v, starts, starts, longest, longest)
        return out[0] if isinstance(out, tuple) else out

    return attend


# Best first; `sequences` after the last.
FLASH: dict[str, Callable[[], Attention]] = {"fa3": fa3, "varlen": varlen, "aten": aten, "fa2": fa2}
