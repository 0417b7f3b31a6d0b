"""Routing and expert matrix products without synchronisation with the host, in the Triton language (CUDA only).

    route     router, softmax and choice of experts in float32, and each block's number of slots per expert
    place     the row of each slot (token x choice) once slots are grouped by expert
    up, down  one grouped product each: gather + up + GELU, then down + routing weight + scatter

Groups begin at multiples of BLOCK_M, so each tile belongs to one expert; grids have their largest possible size and
tiles beyond the last group return at once. No step depends on counts known to the host, so all steps can be captured in
a CUDA graph. `expert_tiles` computes the products faster on GPUs that support it. Source of the idea of sorted,
block-aligned groups: the mixture-of-experts kernels of several servers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import fast_gelu, gelu
from .routing import Routing

ROUTED = 64  # tokens of one block of `route`
BLOCK_M = 128
UP = {"BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
DOWN = {"BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4}
FEW = 256
"""Up to this number of tokens, a pass spends its time reading every expert's weights: blocks are small, and programs
many."""
BLOCK_OF_FEW = 16
UP_OF_FEW = {"BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4}
DOWN_OF_FEW = {"BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 3}


def route(x: Tensor, router: Tensor, chosen: int) -> Routing:
    """Experts and softmax weights of every token in descending order, and the slots grouped by expert.

    Shape: x [tokens, hidden], router float32 [experts, hidden]; slots are tokens x chosen. `order` is longer:
    each group begins at a multiple of `block(tokens)`.
    """
    tokens, hidden = x.shape
    group = block(tokens)
    count, blocks = len(router), triton.cdiv(tokens, ROUTED)
    weights = torch.empty(tokens * chosen, dtype=torch.float32, device=x.device)
    experts = torch.empty(tokens * chosen, dtype=torch.int32, device=x.device)
    counts = torch.empty((blocks, count), dtype=torch.int32, device=x.device)
    _route[(blocks,)](
        x, router, weights, experts, counts, tokens, hidden,
        COUNT=count, WIDE=max(16, triton.next_power_of_2(count)), CHOSEN=chosen, BLOCK=ROUTED, STEP=64,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32x3", num_warps=4,
    )  # fmt: skip
    order = torch.empty(_grid(tokens * chosen, count, group) * group, dtype=torch.int32, device=x.device)
    totals = torch.empty(count, dtype=torch.int32, device=x.device)
    _place[(blocks,)](
        experts, counts, order, totals, tokens, blocks,
        COUNT=count, CHOSEN=chosen, BLOCK=ROUTED, GROUP=group, num_warps=4,
    )  # fmt: skip
    return Routing(weights, experts, order, totals)


def experts(x: Tensor, routing: Routing, up: Tensor, down: Tensor) -> Tensor:
    """Every slot's expert output times its routing weight.

    Shape: x [tokens, hidden], up and down [experts, inner, hidden], to [slots, hidden].
    """
    count, inner, hidden = up.shape
    slots, group = len(routing.weights), block(len(x))
    up_tile, down_tile = (UP_OF_FEW, DOWN_OF_FEW) if group == BLOCK_OF_FEW else (UP, DOWN)
    blocks = _grid(slots, count, group)
    middle = torch.empty((blocks * group, inner), dtype=x.dtype, device=x.device)
    out = torch.empty((slots, hidden), dtype=x.dtype, device=x.device)
    grid = (blocks * triton.cdiv(inner, up_tile["BLOCK_N"]),)
    _up[grid](middle, x, up, routing.order, routing.totals, inner, hidden, blocks,
              COUNT=count, CHOSEN=slots // len(x), EVEN=_even(hidden, inner, up_tile),
              EXACT=x.dtype == torch.float32, BLOCK_M=group, **up_tile)  # fmt: skip
    grid = (blocks * triton.cdiv(hidden, down_tile["BLOCK_N"]),)
    _down[grid](out, middle, down, routing.order, routing.weights, routing.totals, inner, hidden, blocks,
                COUNT=count, EVEN=_even(inner, hidden, down_tile), BLOCK_M=group, **down_tile)  # fmt: skip
    return out


def block(tokens: int) -> int:
    """Rows of a block in a pass of `tokens` tokens; the groups of experts begin at multiples of it."""
    return BLOCK_OF_FEW if tokens <= FEW else BLOCK_M


def _grid(slots: int, count: int, group: int) -> int:
    """Largest number of blocks of `group` rows that the groups of `slots` can fill, for any routing."""
    return slots // group + min(count, slots)


def _even(inside: int, across: int, tile: dict[str, int]) -> bool:
    """True if tiles divide the matrices, so that no load needs a mask."""
    return inside % tile["BLOCK_K"] == 0 and across % tile["BLOCK_N"] == 0


@triton.jit
def _route(x, router, weights, experts, counts, tokens, hidden,
           COUNT: tl.constexpr, WIDE: tl.constexpr, CHOSEN: tl.constexpr,
           BLOCK: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
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
        logits += tl.dot(part, wide, input_precision=PRECISION)
    logits = tl.where((columns < COUNT)[None, :], logits, float("-inf"))
    likely = tl.exp(logits - tl.max(logits, 1)[:, None])
    likely = likely / tl.sum(likely, 1)[:, None]
    sent = tl.zeros((WIDE,), dtype=tl.int32)
    for pick in tl.static_range(CHOSEN):
        best = tl.minimum(tl.argmax(likely, 1), COUNT - 1)  # NaN would give an index outside the table
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
def _tile(totals, blocks, columns, COUNT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """This program's block, column tile and expert, and the number of real rows in the block (0: no work).

    Eight blocks share their column tiles in turn, so that weights stay in the L2 cache between them.
    """
    GROUP: tl.constexpr = 8
    across = tl.cdiv(columns, BLOCK_N)
    first = tl.program_id(0) // (GROUP * across) * GROUP
    size = tl.minimum(blocks - first, GROUP)
    inside = tl.program_id(0) % (GROUP * across)
    block, column = first + inside % size, inside // size
    total = tl.load(totals + tl.arange(0, COUNT))
    filled = (total + BLOCK_M - 1) // BLOCK_M
    ends = tl.cumsum(filled, 0)
    expert = tl.sum((ends <= block).to(tl.int32), 0)
    mine = tl.arange(0, COUNT) == expert
    real = tl.sum(tl.where(mine, total - (block - (ends - filled)) * BLOCK_M, 0), 0)
    return block, column, expert, real


@triton.jit
def _up(middle, x, up, order, totals, inner, hidden, blocks,
        COUNT: tl.constexpr, CHOSEN: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    block, column, expert, real = _tile(totals, blocks, inner, COUNT, BLOCK_M, BLOCK_N)
    if real <= 0:
        return
    rows, columns = tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
    at = block.to(tl.int64) * BLOCK_M + rows
    token = tl.load(order + at, mask=rows < real, other=0) // CHOSEN
    steps = tl.arange(0, BLOCK_K)
    left = x + token.to(tl.int64)[:, None] * hidden + steps[None, :]
    right = up + (expert.to(tl.int64) * inner + columns)[None, :] * hidden + steps[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, hidden, BLOCK_K):
        inside = first + steps < hidden
        if EVEN:
            a, b = tl.load(left), tl.load(right)
        else:
            a = tl.load(left, mask=inside[None, :], other=0.0)
            b = tl.load(right, mask=inside[:, None] & (columns < inner)[None, :], other=0.0)
        total = tl.dot(a, b, total)
        left += BLOCK_K
        right += BLOCK_K
    total = gelu(total) if EXACT else fast_gelu(total)
    target = middle + at[:, None] * inner + columns[None, :]
    tl.store(target, total.to(middle.dtype.element_ty), mask=(columns < inner)[None, :])


@triton.jit
def _down(out, middle, down, order, weights, totals, inner, hidden, blocks,
          COUNT: tl.constexpr, EVEN: tl.constexpr,
          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    block, column, expert, real = _tile(totals, blocks, hidden, COUNT, BLOCK_M, BLOCK_N)
    if real <= 0:
        return
    rows, columns = tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
    at = block.to(tl.int64) * BLOCK_M + rows
    slot = tl.load(order + at, mask=rows < real, other=0)
    weight = tl.load(weights + slot, mask=rows < real, other=0.0)
    steps = tl.arange(0, BLOCK_K)
    left = middle + at[:, None] * inner + steps[None, :]
    right = down + (expert.to(tl.int64) * inner + steps)[:, None] * hidden + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, inner, BLOCK_K):
        inside = first + steps < inner
        if EVEN:
            a, b = tl.load(left), tl.load(right)
        else:
            a = tl.load(left, mask=inside[None, :], other=0.0)
            b = tl.load(right, mask=inside[:, None] & (columns < hidden)[None, :], other=0.0)
        total = tl.dot(a, b, total)
        left += BLOCK_K
        right += BLOCK_K * hidden
    target = out + slot.to(tl.int64)[:, None] * hidden + columns[None, :]
    mask = (rows < real)[:, None] & (columns < hidden)[None, :]
    tl.store(target, (total * weight[:, None]).to(out.dtype.element_ty), mask=mask)
