"""Softmax attention within each packed sequence: all known implementations.

The torch release and the packages of the image decide which implementations a machine has. So each is looked up by
name, and `choices` tries it before use.

    own        attention_kernels.py, in the Triton language
    fa3        flash_attn_interface (FlashAttention-3, in the TensorRT-LLM images)
    varlen     torch.nn.attention.varlen (torch 2.10 and later)
    aten       the private operator below it, since torch 2.2
    fa2        flash_attn (FlashAttention-2)
    sequences  one scaled_dot_product_attention per sequence: everywhere, and the only one on the CPU and in float32

The last part of this module is attention that is causal, has a sliding window, or shares keys and values among heads.
`mixings` lists its implementations; `mixed_by_sequence` is correct on every device.

All but the first are functions of query, key and value [tokens, heads, head], int32 `starts` [sequences + 1] and the
length of the longest sequence, and return [tokens, heads, head]; `adapted` gives each the signature of
`Attention`.
"""

import importlib
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from .packing import Packed
from .plain import Steps

Flash = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
Attention = Callable[..., Tensor]
"""[tokens, 3 x hidden] to [tokens, hidden], as `adapted` returns it; with `output_scale` as e4m3."""


Mixing = Callable[..., Tensor]
"""Attention for grouped heads: [tokens, heads, head] of query [tokens, heads, head], key and value [tokens, fewer
heads, head], the pass, `causal` and `window`, the tokens attended to on either side, 0 for all."""


def own() -> Attention:
    """`attention_kernels.attend`.

    Raises: ImportError if the Triton language is not installed.
    """
    attend: Attention = importlib.import_module(f"{__package__}.attention_kernels").attend
    return attend


def adapted(run: Flash, steps: Steps) -> Attention:
    """`run` as the networks call it: [tokens, 3 x hidden] to [tokens, hidden], with `output_scale` as e4m3."""

    def attend(qkv: Tensor, heads: int, batch: Packed, output_scale: float = 0.0) -> Tensor:
        q, k, v = qkv.view(len(qkv), 3, heads, -1).unbind(1)
        mixed = run(q, k, v, batch.starts, batch.longest).flatten(1)
        return steps.to_float8(mixed, output_scale) if output_scale else mixed

    return attend


def sequences(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Attention of one sequence after the other; reads `starts` back to the host.

    Shape: three times [tokens, heads, head] to one; starts: int32 [sequences + 1].
    """
    out = torch.empty_like(query)
    ends = starts.tolist()
    for first, end in pairwise(ends):
        if end > first:
            q, k, v = (part[None, first:end].transpose(1, 2) for part in (query, key, value))
            out[first:end] = F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
    return out


def fa3() -> Flash:
    """The function of FlashAttention-3.

    Raises: ImportError if the package is not installed.
    """
    return _flash(importlib.import_module("flash_attn_interface").flash_attn_varlen_func)


def fa2() -> Flash:
    """The function of FlashAttention-2.

    Raises: ImportError if the package is not installed.
    """
    return _flash(importlib.import_module("flash_attn").flash_attn_varlen_func)


def varlen() -> Flash:
    """torch's public function; called with the arguments that all its releases share.

    Raises: ImportError before torch 2.10.
    """
    run = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    return lambda q, k, v, starts, longest: run(q, k, v, starts, starts, longest, longest)


def aten() -> Flash:
    """The operator under torch's public function.

    Raises: AttributeError if the torch release has no such operator.
    """
    run = torch.ops.aten._flash_attention_forward
    return lambda q, k, v, starts, longest: run(q, k, v, starts, starts, longest, longest, 0.0, False, False)[0]


def _flash(run: Callable[..., Tensor | tuple[Tensor, ...]]) -> Flash:
    def attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int) -> Tensor:
        out = run(q, k, v, starts, starts, longest, longest)
        return out[0] if isinstance(out, tuple) else out

    return attend


# Best first; `sequences` after the last.
FLASH: dict[str, Callable[[], Flash]] = {"fa3": fa3, "varlen": varlen, "aten": aten, "fa2": fa2}


def implementations(steps: Steps) -> dict[str, Callable[[], Attention]]:
    """Every implementation except `sequences` by name, best first.

    Not measured: whether FlashAttention-3 is faster than `own`.
    """
    return {"own": own} | {name: lambda find=find: adapted(find(), steps) for name, find in FLASH.items()}


def mixed_by_sequence(query: Tensor, key: Tensor, value: Tensor, batch: Packed, causal: bool, window: int) -> Tensor:
    """Attention of one sequence after the other; reads `starts` back to the host.

    Shape: query [tokens, heads, head], key and value [tokens, fewer heads, head], to [tokens, heads, head].
    """
    out, group = torch.empty_like(query), query.shape[1] // key.shape[1]
    for first, end in pairwise(batch.starts.tolist()):
        if end > first:
            places = torch.arange(end - first, device=query.device)
            apart = places[:, None] - places[None, :]
            seen = (apart >= 0) if causal else torch.ones_like(apart, dtype=torch.bool)
            if window:
                seen &= apart.abs() <= window
            q = query[None, first:end].transpose(1, 2)
            k, v = (part[None, first:end].transpose(1, 2).repeat_interleave(group, 1) for part in (key, value))
            out[first:end] = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[0].transpose(0, 1)
    return out


def _sides(causal: bool, window: int) -> tuple[int, int]:
    """Tokens attended to before and after a token, as FlashAttention counts them; -1: all."""
    return window or -1, 0 if causal else window or -1


def _mixing(run: Callable[..., Tensor | tuple[Tensor, ...]]) -> Mixing:
    def mix(q: Tensor, k: Tensor, v: Tensor, batch: Packed, causal: bool, window: int) -> Tensor:
        starts, longest = batch.starts, batch.longest
        out = run(q, k, v, starts, starts, longest, longest, causal=causal, window_size=_sides(causal, window))
        return out[0] if isinstance(out, tuple) else out

    return mix


def _mixing_varlen() -> Mixing:
    run = importlib.import_module("torch.nn.attention.varlen").varlen_attn

    def mix(q: Tensor, k: Tensor, v: Tensor, batch: Packed, causal: bool, window: int) -> Tensor:
        starts, longest = batch.starts, batch.longest
        out: Tensor = run(
            q, k, v, starts, starts, longest, longest, window_size=_sides(causal, window), enable_gqa=True
        )
        return out

    return mix


def _mixing_aten() -> Mixing:
    run = torch.ops.aten._flash_attention_forward

    def mix(q: Tensor, k: Tensor, v: Tensor, batch: Packed, causal: bool, window: int) -> Tensor:
        starts, longest = batch.starts, batch.longest
        left, right = _sides(causal, window)
        out: Tensor = run(
            q, k, v, starts, starts, longest, longest, 0.0, causal, False,
            window_size_left=left, window_size_right=right,
        )[0]  # fmt: skip
        return out

    return mix


def mixings() -> dict[str, Callable[[], Mixing]]:
    """Every implementation except `mixed_by_sequence` by name, best first; each raises if this torch release lacks
    it."""
    return {
        "fa3": lambda: _mixing(importlib.import_module("flash_attn_interface").flash_attn_varlen_func),
        "varlen": _mixing_varlen,
        "aten": _mixing_aten,
        "fa2": lambda: _mixing(importlib.import_module("flash_attn").flash_attn_varlen_func),
    }
