"""The experts' two products with persistent programs, in the Triton language (CUDA only).

Uses the routing and groups of `expert_kernels`. Each program loops over tiles. Contiguous data (weights, and the rows
between the two products) is loaded by the tensor memory accelerator. H100 80GB HBM3, 16,384 tokens, 768 to 3072 and
back, 2026-11-21: 280 and 227 µs; one program for each tile with plain loads: 375 and 259. Needs tensor descriptors
(Triton language 3.4, compute capability 9.0).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from . import expert_kernels
from .expert_kernels import BLOCK_M
from .fused import fast_gelu
from .linear import FEW_ROWS
from .product_kernels import processors
from .routing import Routing

TILE = {"BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
TILE_OF_FEW = {"BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4}
"""Tile for passes that read every expert for few tokens: more programs, and each reads less."""


def experts(x: Tensor, routing: Routing, up: Tensor, down: Tensor) -> Tensor:
    """Every slot's expert output times its routing weight.

    Shape: x [tokens, hidden], up and down [experts, inner, hidden], to [slots, hidden].
    """
    # Of 32 tokens, 36 µs instead of 89; of 256 tokens, 53 instead of 66 (H100, 2026-11-27)
    if expert_kernels.block(len(x)) != BLOCK_M:
        return expert_kernels.experts(x, routing, up, down)
    count, inner, hidden = up.shape
    slots = len(routing.weights)
    tile = TILE if len(x) > FEW_ROWS else TILE_OF_FEW
    across, deep = tile["BLOCK_N"], tile["BLOCK_K"]
    blocks = len(routing.order) // BLOCK_M
    middle = torch.empty((blocks * BLOCK_M, inner), dtype=x.dtype, device=x.device)
    out = torch.empty((slots, hidden), dtype=x.dtype, device=x.device)
    programs = processors(x.device)  # an upper bound: there are never more programs than tiles
    _up[(min(programs, blocks * triton.cdiv(inner, across)),)](
        _tiles(middle, BLOCK_M, across), x, _tiles(up.flatten(0, 1), across, deep), routing.order, routing.totals,
        inner, hidden, programs, COUNT=count, CHOSEN=slots // len(x), EVEN=hidden % deep == 0,
        BLOCK_M=BLOCK_M, **tile,
    )  # fmt: skip
    _down[(min(programs, blocks * triton.cdiv(hidden, across)),)](
        out, _tiles(middle, BLOCK_M, deep), _tiles(down.flatten(0, 1), deep, across), routing.order, routing.weights,
        routing.totals, inner, hidden, programs, COUNT=count, BLOCK_M=BLOCK_M, **tile,
    )  # fmt: skip
    return out


def _tiles(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


@triton.jit
def _groups(totals, COUNT: tl.constexpr, BLOCK_M: tl.constexpr):
    """Slots of each expert, the number of blocks that they fill, and the block after each expert's group."""
    total = tl.load(totals + tl.arange(0, COUNT))
    filled = (total + BLOCK_M - 1) // BLOCK_M
    return total, filled, tl.cumsum(filled, 0)


@triton.jit
def _tile(tile, total, filled, ends, columns, COUNT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The tile's block, column and expert, and the number of real rows in the block.

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
        middle_tiles.store([block * BLOCK_M, column], fast_gelu(product).to(middle_tiles.dtype))


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
