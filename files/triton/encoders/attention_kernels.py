"""Softmax attention within packed sequences in the Triton language (CUDA only).

One program computes TILE queries of one head; which sequence and where in it comes with the pass (packing.py), so the
grid is as large as the work, also in a CUDA graph that does not know the lengths. Tiles of 64 were best or within 5 %
of it at every length. H100 80GB HBM3, fp16, 16 heads of 64, 16,896 tokens, microseconds, read 2026-11-21:

    tokens of a sequence    32    64   128   256   512
    this                    69    56    61    74   116
    torch's varlen_attn    203   114    76    99   150
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import rotate_
from .packing import TILE, Packed

WARPS, STAGES = 4, 3


def attend(qkv: Tensor, heads: int, batch: Packed, turns: Tensor | None = None) -> Tensor:
    """Attention of [tokens, 3 x hidden], as [tokens, hidden]; `turns` as in plain.rotate_, none: nothing is rotated."""
    if turns is not None:  # rotating keys anew for every tile of queries costs more than one pass over memory
        rotate_(qkv, batch.positions, turns, heads)
    tokens, width = qkv.shape
    head = width // (3 * heads)
    out = torch.empty((tokens, width // 3), dtype=qkv.dtype, device=qkv.device)
    count = len(batch.tiles) // 2
    _attend[(count, heads)](
        out, qkv, batch.starts, batch.tiles, count, head**-0.5 * 1.4426950408889634,
        HEADS=heads, HEAD=head, BLOCK_M=TILE, BLOCK_N=TILE, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out


@triton.jit
def _attend(out, qkv, starts, tiles, count, scale,
            HEADS: tl.constexpr, HEAD: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    HIDDEN: tl.constexpr = HEADS * HEAD
    sequence, head = tl.load(tiles + tl.program_id(0)), tl.program_id(1)
    if sequence < 0:
        return
    tile = tl.load(tiles + count + tl.program_id(0))
    first = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - first
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, HEAD)
    base = qkv + first.to(tl.int64) * (3 * HIDDEN) + head * HEAD
    real = (rows < length)[:, None]
    query = tl.load(base + rows[:, None] * (3 * HIDDEN) + columns[None, :], mask=real, other=0.0)
    highest = tl.full((BLOCK_M,), -1.0e30, dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for begin in range(0, length, BLOCK_N):
        keys = begin + tl.arange(0, BLOCK_N)
        key_at = base + HIDDEN + keys[None, :] * (3 * HIDDEN) + columns[:, None]
        scores = tl.dot(query, tl.load(key_at, mask=(keys < length)[None, :], other=0.0))
        scores = tl.where((keys < length)[None, :], scores * scale, -1.0e30)
        now = tl.maximum(highest, tl.max(scores, 1))
        powers = tl.exp2(scores - now[:, None])
        fade = tl.exp2(highest - now)
        value_at = base + 2 * HIDDEN + keys[:, None] * (3 * HIDDEN) + columns[None, :]
        value = tl.load(value_at, mask=(keys < length)[:, None], other=0.0)
        mixed = mixed * fade[:, None]
        mixed = tl.dot(powers.to(value.dtype), value, mixed)
        weight, highest = weight * fade + tl.sum(powers, 1), now
    target = out + (first + rows).to(tl.int64)[:, None] * HIDDEN + head * HEAD + columns[None, :]
    tl.store(target, (mixed / weight[:, None]).to(out.dtype.element_ty), mask=real)
