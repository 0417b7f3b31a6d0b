"""Routing and expert matrix products without a word from the host, in the Triton language (CUDA only).

    route     router, softmax and choice of experts in float32, and how many slots each block of tokens sends where
    place     the row of each slot (token x choice) once slots are grouped by expert
    up, down  one grouped product each: gather + up + GELU, then down + routing weight + scatter

Groups begin at multiples of BLOCK_M, so each tile belongs to one expert. Programs stay on their multiprocessor and walk
over as many tiles as there are; nothing depends on counts known to the host: all of it can be captured in a CUDA graph.
What lies in one piece (weights, and the rows between the two products) travels by the tensor memory accelerator.
Source of the idea of sorted, block-aligned groups: the mixture-of-experts kernels of several servers. H100 80GB HBM3,
16,384 tokens, 768 to 3072 and back, 2026-11-21: 280 and 227 µs; one program for each tile and plain loads 375 and 259.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from .fused import fast_gelu, half_gelu
from .product_kernels import processors
from .routing import Routing

ROUTED = 64  # tokens of one block of `route`
BLOCK_M = 128
TILE = {"BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}


def route(x: Tensor, router: Tensor, chosen: int) -> Routing:
    """Experts and softmax weights of every token, the likeliest first, and the slots grouped by expert."""
    tokens, hidden = x.shape
    count, blocks = len(router), triton.cdiv(tokens, ROUTED)
    weights = torch.empty(tokens * chosen, dtype=torch.float32, device=x.device)
    experts = torch.empty(tokens * chosen, dtype=torch.int32, device=x.device)
    counts = torch.empty((blocks, count), dtype=torch.int32, device=x.device)
    _route[(blocks,)](
        x, router, weights, experts, counts, tokens, hidden,
        COUNT=count, WIDE=max(16, triton.next_power_of_2(count)), CHOSEN=chosen, BLOCK=ROUTED, STEP=64,
        num_warps=4,
    )  # fmt: skip
    order = torch.empty(_blocks(tokens * chosen, count) * BLOCK_M, dtype=torch.int32, device=x.device)
    totals = torch.empty(count, dtype=torch.int32, device=x.device)
    _place[(blocks,)](
        experts, counts, order, totals, tokens, blocks,
        COUNT=count, CHOSEN=chosen, BLOCK=ROUTED, GROUP=BLOCK_M, num_warps=4,
    )  # fmt: skip
    return Routing(weights, experts, order, totals)


def experts(x: Tensor, routing: Routing, up: Tensor, down: Tensor) -> Tensor:
    """Every slot's expert output times its routing weight; up and down are [experts, inner, hidden]."""
    count, inner, hidden = up.shape
    slots = len(routing.weights)
    across, deep = TILE["BLOCK_N"], TILE["BLOCK_K"]
    blocks = _blocks(slots, count)
    middle = torch.empty((blocks * BLOCK_M, inner), dtype=x.dtype, device=x.device)
    out = torch.empty((slots, hidden), dtype=x.dtype, device=x.device)
    programs = processors(x.device)
    _up[(min(programs, blocks * triton.cdiv(inner, across)),)](
        _tiles(middle, BLOCK_M, across), x, _tiles(up.flatten(0, 1), across, deep), routing.order, routing.totals,
        inner, hidden, programs, COUNT=count, CHOSEN=slots // len(x), EVEN=hidden % deep == 0,
        BLOCK_M=BLOCK_M, **TILE,
    )  # fmt: skip
    _down[(min(programs, blocks * triton.cdiv(hidden, across)),)](
        out, _tiles(middle, BLOCK_M, deep), _tiles(down.flatten(0, 1), deep, across), routing.order, routing.weights,
        routing.totals, inner, hidden, programs, COUNT=count, BLOCK_M=BLOCK_M, **TILE,
    )  # fmt: skip
    return out


def _blocks(slots: int, count: int) -> int:
    """The most blocks the groups of `slots` can fill, whatever the routing."""
    return slots // BLOCK_M + min(count, slots)


def _tiles(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


@triton.jit
def _route(x, router, weights, experts, counts, tokens, hidden,
           COUNT: tl.constexpr, WIDE: tl.constexpr, CHOSEN: tl.constexpr,
           BLOCK: tl.constexpr, STEP: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDE)
    steps = tl.arange(0, STEP)
    logits = tl.zeros((BLOCK, WIDE), dtype=tl.float32)
    for first in range(0, hidden, STEP):
        at = first + steps
        mask = (rows < tokens)[:, None] & (at < hidden)[None, :]
        part = tl.load(x + rows.to(tl.int64)[:, None] * hidden + at[None, :], mask=mask, other=0.0).to(tl.float32)
        mask = (columns < COUNT)[None, :] & (at < hidden)[:, None]
        wide = tl.load(router + columns[None, :] * hidden + at[:, None], mask=mask, other=0.0)
        logits += tl.dot(part, wide, input_precision="tf32x3")
    logits = tl.where((columns < COUNT)[None, :], logits, float("-inf"))
    likely = tl.exp(logits - tl.max(logits, 1)[:, None])
    likely = likely / tl.sum(likely, 1)[:, None]
    sent = tl.zeros((WIDE,), dtype=tl.int32)
    for pick in tl.static_range(CHOSEN):
        best = tl.minimum(tl.argmax(likely, 1), COUNT - 1)  # not a number would point anywhere
        here = columns[None, :] == best[:, None]
        weight = tl.sum(tl.where(here, likely, 0.0), 1)
        tl.store(weights + rows * CHOSEN + pick, weight, mask=rows < tokens)
        tl.store(experts + rows * CHOSEN + pick, best.to(tl.int32), mask=rows < tokens)
        sent += tl.sum((here & (rows < tokens)[:, None]).to(tl.int32), 0)
        likely = tl.where(here, -1.0, likely)
    tl.store(counts + tl.program_id(0) * COUNT + columns, sent, mask=columns < COUNT)


@triton.jit
def _place(experts, counts, order, totals, tokens, blocks,
           COUNT: tl.constexpr, CHOSEN: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    mine = tl.program_id(0)
    expert = tl.arange(0, COUNT)
    total = tl.zeros((COUNT,), dtype=tl.int32)
    before = tl.zeros((COUNT,), dtype=tl.int32)
    for first in range(0, blocks, 64):
        at = first + tl.arange(0, 64)
        part = tl.load(counts + at[:, None] * COUNT + expert[None, :], mask=(at < blocks)[:, None], other=0)
        total += tl.sum(part, 0)
        before += tl.sum(tl.where((at < mine)[:, None], part, 0), 0)
    if mine == 0:
        tl.store(totals + expert, total)
    padded = (total + GROUP - 1) // GROUP * GROUP
    start = tl.cumsum(padded, 0) - padded + before
    rows = mine * BLOCK + tl.arange(0, BLOCK)
    for pick in tl.static_range(CHOSEN):
        chosen = tl.load(experts + rows * CHOSEN + pick, mask=rows < tokens, other=-1)
        here = (chosen[:, None] == expert[None, :]).to(tl.int32)
        rank = tl.cumsum(here, 0) - here
        target = tl.sum(here * (start[None, :] + rank), 1)
        tl.store(order + target, rows * CHOSEN + pick, mask=rows < tokens)
        start += tl.sum(here, 0)


@triton.jit
def _groups(totals, COUNT: tl.constexpr, BLOCK_M: tl.constexpr):
    """Slots of each expert, the blocks they fill, and the block each expert's group ends before."""
    total = tl.load(totals + tl.arange(0, COUNT))
    filled = (total + BLOCK_M - 1) // BLOCK_M
    return total, filled, tl.cumsum(filled, 0)


@triton.jit
def _tile(tile, total, filled, ends, columns, COUNT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The tile's block, column, expert, and how many rows of the block are real.

    Eight blocks share their column tiles in turn, so that weights stay in the L2 cache between them.
    """
    GROUP: tl.constexpr = 8
    across = tl.cdiv(columns, BLOCK_N)
    first = tile // (GROUP * across) * GROUP
    size = tl.minimum(tl.sum(filled, 0) - first, GROUP)
    inside = tile % (GROUP * across)
    block, column = first + inside % size, inside // size * BLOCK_N
    expert = tl.sum((ends <= block).to(tl.int32), 0)
    mine = tl.arange(0, COUNT) == expert
    real = tl.sum(tl.where(mine, total - (block - (ends - filled)) * BLOCK_M, 0), 0)
    return block, column, expert, real


@triton.jit
def _up(middle_tiles, x, up_tiles, order, totals, inner, hidden, programs,
        COUNT: tl.constexpr, CHOSEN: tl.constexpr, EVEN: tl.constexpr,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    total, filled, ends = _groups(totals, COUNT, BLOCK_M)
    rows, steps = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tl.sum(filled, 0) * tl.cdiv(inner, BLOCK_N), programs, flatten=True):
        block, column, expert, real = _tile(tile, total, filled, ends, inner, COUNT, BLOCK_M, BLOCK_N)
        token = tl.load(order + block * BLOCK_M + rows, mask=rows < real, other=0) // CHOSEN
        left = x + token.to(tl.int64)[:, None] * hidden + steps[None, :]
        product = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for first in range(0, hidden, BLOCK_K):
            if EVEN:
                a = tl.load(left)
            else:
                a = tl.load(left, mask=(first + steps < hidden)[None, :], other=0.0)
            product = tl.dot(a, up_tiles.load([expert * inner + column, first]).T, product)
            left += BLOCK_K
        kind = middle_tiles.dtype
        product = half_gelu(product.to(kind)) if kind == tl.float16 else fast_gelu(product)
        middle_tiles.store([block * BLOCK_M, column], product.to(kind))


@triton.jit
def _down(out, middle_tiles, down_tiles, order, weights, totals, inner, hidden, programs,
          COUNT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    total, filled, ends = _groups(totals, COUNT, BLOCK_M)
    rows = tl.arange(0, BLOCK_M)
    for tile in tl.range(tl.program_id(0), tl.sum(filled, 0) * tl.cdiv(hidden, BLOCK_N), programs, flatten=True):
        block, column, expert, real = _tile(tile, total, filled, ends, hidden, COUNT, BLOCK_M, BLOCK_N)
        product = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for first in range(0, inner, BLOCK_K):
            a, b = middle_tiles.load([block * BLOCK_M, first]), down_tiles.load([expert * inner + first, column])
            product = tl.dot(a, b, product)
        slot = tl.load(order + block * BLOCK_M + rows, mask=rows < real, other=0)
        weight = tl.load(weights + slot, mask=rows < real, other=0.0)
        columns = column + tl.arange(0, BLOCK_N)
        target = out + slot.to(tl.int64)[:, None] * hidden + columns[None, :]
        mask = (rows < real)[:, None] & (columns < hidden)[None, :]
        tl.store(target, (product * weight[:, None]).to(out.dtype.element_ty), mask=mask)
