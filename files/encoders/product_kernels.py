"""A matrix product fused with the steps after it, in the Triton language (CUDA only).

    product     bias, then GELU or a rotation, then e4m3 if the next product is in 8 bits

Persistent programs loop over tiles; the tensor memory accelerator loads the operands of the next tile while one is
finished. Compared with the library's product and a separate kernel for the steps; H100 80GB HBM3, 16,384 rows,
2026-11-21: 8 bits, 1024 to 4096, bias, GELU, e4m3 out: 126 µs instead of 198 µs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from .fused import FLOAT8, fast_gelu, half_gelu
from .linear import Linear

TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "num_warps": 8, "num_stages": 3}
FEWER_STAGES = 2
"""Pipeline stages for rotations of heads wider than 64, which need the shared memory of a third stage (sm_90)."""
DEEP_BYTES = 128
"""Bytes of each operand row that a step reads: the most that one request of the accelerator may span."""


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: float = 1.0,
    gelu: bool = False,
    output_scale: float = 0.0,
    positions: Tensor | None = None,
    turns: Tensor | None = None,
) -> Tensor:
    """`x @ weight.T * scale + bias` in bias's format, or as e4m3 divided by `output_scale`.

    Shape: x [rows, inside], weight [columns, inside], bias [columns], to [rows, columns]; positions [rows], turns
    float32 [positions, head].

    With `turns`, the first two thirds of the columns (queries and keys) are rotated as in plain.rotate_.
    """
    rows, inside = x.shape
    columns, kind = len(weight), FLOAT8 if output_scale else bias.dtype
    out = torch.empty((rows, columns), dtype=kind, device=x.device)
    tile = dict(TILE, BLOCK_K=DEEP_BYTES // x.element_size())
    if turns is not None and turns.shape[1] > 64:
        tile["num_stages"] = FEWER_STAGES
    x_tiles = TensorDescriptor.from_tensor(x, [tile["BLOCK_M"], tile["BLOCK_K"]])
    weight_tiles = TensorDescriptor.from_tensor(weight, [tile["BLOCK_N"], tile["BLOCK_K"]])
    out_tiles = TensorDescriptor.from_tensor(out, [tile["BLOCK_M"], tile["BLOCK_N"]])
    tiles = triton.cdiv(rows, tile["BLOCK_M"]) * triton.cdiv(columns, tile["BLOCK_N"])
    programs = min(tiles, processors(x.device))
    _product[(programs,)](
        x_tiles, weight_tiles, out_tiles, bias, positions, turns, scale, 1.0 / output_scale if output_scale else 1.0,
        rows, columns, inside, programs, GELU=gelu, HALF=bias.dtype == torch.float16, FLOAT8=bool(output_scale),
        HEAD=0 if turns is None else turns.shape[1], GROUP=8, **tile,
    )  # fmt: skip
    return out


def activated(x: Tensor, linear: Linear) -> Tensor:
    """GELU of the projection, [tokens, in] to [tokens, out], in the tanh form (see `linear.in_one_product`)."""
    return product(x, linear.weight, linear.bias, gelu=True)


def rotated(x: Tensor, linear: Linear, positions: Tensor, turns: Tensor) -> Tensor:
    """Queries, keys and values, with queries and keys rotated: [tokens, in] to [tokens, 3 x hidden]."""
    return product(x, linear.weight, linear.bias, positions=positions, turns=turns)


def processors(device: torch.device) -> int:
    """Number of multiprocessors of the device."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@triton.jit
def _product(x_tiles, weight_tiles, out_tiles, bias, positions, turns, scale, factor, rows, columns, inside, programs,
             GELU: tl.constexpr, HALF: tl.constexpr, FLOAT8: tl.constexpr, HEAD: tl.constexpr, GROUP: tl.constexpr,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    down, across = tl.cdiv(rows, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    for tile in tl.range(tl.program_id(0), down * across, programs, flatten=True):
        first = tile // (GROUP * across) * GROUP
        size = tl.minimum(down - first, GROUP)
        row = (first + tile % (GROUP * across) % size) * BLOCK_M
        column = tile % (GROUP * across) // size * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for at in range(0, inside, BLOCK_K):
            total = tl.dot(x_tiles.load([row, at]), weight_tiles.load([column, at]).T, total)
        across_at = column + tl.arange(0, BLOCK_N)
        total = total * scale + tl.load(bias + across_at, mask=across_at < columns, other=0.0).to(tl.float32)[None, :]
        if GELU:
            total = half_gelu(total.to(tl.float16)) if HALF else fast_gelu(total)
        if HEAD > 0:  # noqa: SIM102 - decided when compiled; without rotation the rest has no meaning
            if column < columns // 3 * 2:
                total = _rotated(total, positions, turns, row, column, rows, columns, HEAD, BLOCK_M, BLOCK_N)
        if FLOAT8:
            total *= factor.to(total.dtype)
        out_tiles.store([row, column], total.to(out_tiles.dtype))


@triton.jit
def _rotated(x, positions, turns, row, column, rows, columns,
            HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """`x` [BLOCK_M, BLOCK_N] with columns 2i and 2i + 1 of each head rotated by their row's position.

    The columns of the last third (values) stay unchanged.
    """
    HALF: tl.constexpr = HEAD // 2
    down = row + tl.arange(0, BLOCK_M)
    position = tl.load(positions + down, mask=down < rows, other=0).to(tl.int64)
    angle = tl.arange(0, HALF)
    base = turns + position[:, None, None] * HEAD + angle[None, None, :]
    heads = column // HEAD + tl.arange(0, BLOCK_N // HEAD)
    turns_too = (heads < columns // HEAD // 3 * 2)[None, :, None]
    cosine = tl.where(turns_too, tl.load(base), 1.0)
    sine = tl.where(turns_too, tl.load(base + HALF), 0.0)
    left, right = tl.split(tl.reshape(x, (BLOCK_M, BLOCK_N // HEAD, HALF, 2)))
    both = tl.join(left * cosine - right * sine, right * cosine + left * sine)
    return tl.reshape(both, (BLOCK_M, BLOCK_N))
