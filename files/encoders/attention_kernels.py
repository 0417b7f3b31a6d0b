"""Softmax attention within packed sequences in the Triton language (CUDA only).

A program computes runs of TILE queries of one head. The pass itself has the number of runs and the sequence of each
(packing.py): a CUDA graph is captured before the lengths are known, and still computes no more than the sequences need.
Tiles of 64 were best at 128 and 512 tokens. H100 80GB HBM3, fp16, 16 heads of 64, microseconds, read 2026-11-21, this
over 16,384 tokens and the other over 16,896:

    tokens of a sequence    32   128   512
    this                    76    56   103
    torch's varlen_attn    203    76   150
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import FLOAT8
from .packing import TILE, Packed

WARPS, STAGES = 4, 3
SPARE = 16


def attend(qkv: Tensor, heads: int, batch: Packed, output_scale: float = 0.0) -> Tensor:
    """Attention within each sequence of `batch`; with `output_scale` as e4m3.

    Shape: queries, keys and values [tokens, 3 x hidden] to [tokens, hidden], `heads` side by side.
    """
    tokens, width = qkv.shape
    head = width // (3 * heads)
    out = torch.empty((tokens, width // 3), dtype=FLOAT8 if output_scale else qkv.dtype, device=qkv.device)
    count = len(batch.tiles) // 2
    programs = min(count, tokens // TILE + SPARE)
    _attend[(programs, heads)](
        out, qkv, batch.starts, batch.tiles, count, programs, head**-0.5 * 1.4426950408889634,
        1.0 / output_scale if output_scale else 1.0, FLOAT8=bool(output_scale),
        HEADS=heads, HEAD=head, BLOCK_M=TILE, BLOCK_N=TILE, STAGES=STAGES, num_warps=WARPS,
    )  # fmt: skip
    return out


@triton.jit
def _attend(out, qkv, starts, tiles, count, programs, scale, factor,
            FLOAT8: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    HIDDEN: tl.constexpr = HEADS * HEAD
    head = tl.program_id(1)
    total = tl.load(tiles)
    for turn in range(tl.program_id(0), total, programs):
        run = total - 1 - turn  # backwards: the last rows of the previous product are still in the L2 cache
        sequence = tl.load(tiles + 1 + run)
        tile = tl.load(tiles + 1 + count + run)
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
        whole = length // BLOCK_N * BLOCK_N  # keys from here on need a mask
        for begin in tl.range(0, whole, BLOCK_N, num_stages=STAGES):
            highest, weight, mixed = _more(
                query, base + HIDDEN, begin, length, highest, weight, mixed, scale, HIDDEN, HEAD, BLOCK_N, False
            )
        if whole < length:
            highest, weight, mixed = _more(
                query, base + HIDDEN, whole, length, highest, weight, mixed, scale, HIDDEN, HEAD, BLOCK_N, True
            )
        target = out + (first + rows).to(tl.int64)[:, None] * HIDDEN + head * HEAD + columns[None, :]
        mixed = mixed / weight[:, None]
        if FLOAT8:
            mixed *= factor
        tl.store(target, mixed.to(out.dtype.element_ty), mask=real)


@triton.jit
def _more(query, keys, begin, length, highest, weight, mixed, scale,
          HIDDEN: tl.constexpr, HEAD: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    """Continues the running softmax with the keys and values from `begin` on; `keys` points at the first token's.

    Shape: query [BLOCK_M, HEAD]; highest and weight [BLOCK_M], mixed [BLOCK_M, HEAD], each as argument and as result.
    """
    rows, columns = begin + tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    key_at = keys + rows[None, :] * (3 * HIDDEN) + columns[:, None]
    value_at = keys + HIDDEN + rows[:, None] * (3 * HIDDEN) + columns[None, :]
    if MASKED:
        there = rows < length
        key, value = tl.load(key_at, mask=there[None, :], other=0.0), tl.load(value_at, mask=there[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(query, key), -1.0e30)
    else:
        value = tl.load(value_at)
        scores = tl.dot(query, tl.load(key_at))
    now = tl.maximum(highest, tl.max(scores, 1) * scale)
    powers = tl.exp2(scores * scale - now[:, None])
    fade = tl.exp2(highest - now)
    mixed = tl.dot(powers.to(value.dtype), value, mixed * fade[:, None])
    return now, weight * fade + tl.sum(powers, 1), mixed
