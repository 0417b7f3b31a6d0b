"""The memory-bound steps between matrix products, each as one kernel in the Triton language (CUDA only).

The functions of `plain.py`, which documents their results; a test compares both. Sums and LayerNorm statistics are
always float32; the conversion to e4m3 saturates. `add_norm` reads rows from the last to the first, because the last
rows of the product before are still in the L2 cache.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .plain import Norm, States

POOLED_ROWS, POOLED_COLUMNS = 32, 128
FLOAT8 = torch.float8_e4m3fn


def embed(ids: Tensor, positions: Tensor, word: Tensor, place: Tensor | None, segment: Tensor, norm: Norm) -> States:
    """As plain.embed: ids and positions [tokens], tables [rows, hidden], to [tokens, hidden]."""
    hidden = word.shape[1]
    out = _room(len(ids), hidden, word, norm)
    table = word if place is None else place
    _embed[(len(ids),)](
        *out, ids, positions, word, table, segment, norm.weight, norm.bias, hidden, norm.epsilon, _factor(norm),
        PLACED=place is not None, **_kinds(out), BLOCK=triton.next_power_of_2(hidden), num_warps=4,
    )  # fmt: skip
    return out


def add_norm(y: Tensor, bias: Tensor, x: Tensor, norm: Norm) -> States:
    """As plain.add_norm: y [tokens x parts, hidden], bias [hidden], x [tokens, hidden], to [tokens, hidden]."""
    rows, hidden = x.shape
    out = _room(rows, hidden, y, norm)
    _add_norm[(rows,)](
        *out, y, x, bias, norm.weight, norm.bias, hidden, norm.epsilon, _factor(norm),
        PARTS=len(y) // rows, **_kinds(out), BLOCK=triton.next_power_of_2(hidden), num_warps=4,
    )  # fmt: skip
    return out


def _room(rows: int, hidden: int, like: Tensor, norm: Norm) -> States:
    """Uninitialised states [rows, hidden] on the device of `like`, in the formats that `norm` writes."""
    narrow, wide = FLOAT8 if norm.output_scale else like.dtype, like.dtype
    if wide == torch.bfloat16:
        wide = torch.float32
    out = torch.empty((rows, hidden), dtype=narrow, device=like.device)
    return States(out, out if wide == narrow else torch.empty_like(out, dtype=wide))


def _factor(norm: Norm) -> float:
    return 1.0 / norm.output_scale if norm.output_scale else 1.0


def _kinds(out: States) -> dict[str, bool]:
    return {"WIDE": out.wide is not out.narrow, "FLOAT8": out.narrow.dtype == FLOAT8}


def gelu_(x: Tensor) -> Tensor:
    """As plain.gelu_: any shape to the same; `x` is overwritten."""
    _gelu[(triton.cdiv(x.numel(), 4096),)](x, x, x.numel(), 1.0, FLOAT8=False, BLOCK=4096, num_warps=8)
    return x


def rotate_(qkv: Tensor, positions: Tensor, turns: Tensor) -> None:
    """As plain.rotate_: qkv [tokens, 3 x hidden] in place, positions [tokens], turns float32 [positions, head]."""
    head = turns.shape[1]
    heads = qkv.shape[1] // (3 * head)
    _rotate[(len(qkv),)](
        qkv, positions, turns, HEAD=head, PAIRS=2 * heads,
        BLOCK=triton.next_power_of_2(2 * heads), WIDE=triton.next_power_of_2(head // 2), num_warps=4,
    )  # fmt: skip


def mean(x: Tensor, starts: Tensor) -> Tensor:
    """As plain.mean: x [tokens, hidden], starts [sequences + 1], to float32 [sequences, hidden]."""
    hidden = x.shape[1]
    out = torch.empty((len(starts) - 1, hidden), dtype=torch.float32, device=x.device)
    grid = (len(starts) - 1, triton.cdiv(hidden, POOLED_COLUMNS))
    _mean[grid](out, x, starts, hidden, ROWS=POOLED_ROWS, COLUMNS=POOLED_COLUMNS, num_warps=4)
    return out


def to_float8(x: Tensor, scale: float, gelu: bool = False) -> Tensor:
    """As plain.to_float8: any shape to the same, as e4m3."""
    out = torch.empty(x.shape, dtype=FLOAT8, device=x.device)
    grid = (triton.cdiv(x.numel(), 4096),)
    _gelu[grid](out, x, x.numel(), 1.0 / scale, FLOAT8=True, GELU=gelu, BLOCK=4096, num_warps=8)
    return out


@triton.jit
def gelu(x):
    """GELU by the error function, exact to 1.5e-7 (Abramowitz and Stegun 7.1.26); the library's erf is slower."""
    z = tl.abs(x) * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * z)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * tail * tl.exp2(-1.4426950408889634 * z * z)
    return x * tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def fast_gelu(x):
    """GELU's tanh form by the device's tanh instruction; exact to 1e-3, which is little in fp16 and bf16."""
    z = x * (0.7978845608028654 + 0.035677408136300125 * (x * x))
    t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [z], dtype=tl.float32, is_pure=True, pack=1)
    return 0.5 * x * t + 0.5 * x


@triton.jit
def half_gelu(x):
    """GELU's tanh form of two float16 values at a time, in fewer instructions.

    Exact to 1e-3 and float16's rounding.
    """
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 line, cube, inner, half;
        mov.b32 line, 0x3A623A62;
        mov.b32 cube, 0x28912891;
        mov.b32 half, 0x38003800;
        mul.f16x2 inner, $1, $1;
        fma.rn.f16x2 inner, inner, cube, line;
        mul.f16x2 inner, inner, $1;
        tanh.approx.f16x2 inner, inner;
        mul.f16x2 half, half, $1;
        fma.rn.f16x2 $0, half, inner, half;
        }
        """,
        "=r,r", [x], dtype=tl.float16, is_pure=True, pack=2,
    )  # fmt: skip


@triton.jit
def _normalised(x, mask, weight, bias, columns, hidden, epsilon):
    centred = tl.where(mask, x - tl.sum(x, 0) / hidden, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / hidden + epsilon)
    weights = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
    biases = tl.load(bias + columns, mask=mask, other=0.0).to(tl.float32)
    return centred * scale * weights + biases


@triton.jit
def _embed(out, wide, ids, positions, word, place, segment, weight, bias, hidden, epsilon, factor,
           PLACED: tl.constexpr, WIDE: tl.constexpr, FLOAT8: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < hidden
    token = tl.load(ids + row).to(tl.int64)
    x = tl.load(word + token * hidden + columns, mask=mask, other=0.0).to(tl.float32)
    if PLACED:
        at = tl.load(positions + row).to(tl.int64)
        x += tl.load(place + at * hidden + columns, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(segment + columns, mask=mask, other=0.0).to(tl.float32)
    x = _normalised(x, mask, weight, bias, columns, hidden, epsilon)
    if WIDE:
        tl.store(wide + row * hidden + columns, x.to(wide.dtype.element_ty), mask=mask)
    if FLOAT8:
        x *= factor
    tl.store(out + row * hidden + columns, x.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _add_norm(out, wide, y, x, shared, weight, bias, hidden, epsilon, factor,
              PARTS: tl.constexpr, WIDE: tl.constexpr, FLOAT8: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < hidden
    total = tl.load(x + row * hidden + columns, mask=mask, other=0.0).to(tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(y + (row * PARTS + part) * hidden + columns, mask=mask, other=0.0).to(tl.float32)
    total += tl.load(shared + columns, mask=mask, other=0.0).to(tl.float32)
    total = _normalised(total, mask, weight, bias, columns, hidden, epsilon)
    if WIDE:
        tl.store(wide + row * hidden + columns, total.to(wide.dtype.element_ty), mask=mask)
    if FLOAT8:
        total *= factor
    tl.store(out + row * hidden + columns, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _gelu(out, x, count, factor, FLOAT8: tl.constexpr, BLOCK: tl.constexpr, GELU: tl.constexpr = True):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    if GELU:
        value = gelu(value)
    if FLOAT8:
        value *= factor
    tl.store(out + at, value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _rotate(qkv, positions, turns,
            HEAD: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """Rotates queries and keys, PAIRS heads in all; value 2i of a head is rotated with value 2i + 1."""
    HALF: tl.constexpr = HEAD // 2
    row = tl.program_id(0).to(tl.int64)
    angle = tl.arange(0, WIDE)
    base = turns + tl.load(positions + row).to(tl.int64) * HEAD
    cosine = tl.load(base + angle, mask=angle < HALF, other=0.0)[None, :]
    sine = tl.load(base + HALF + angle, mask=angle < HALF, other=0.0)[None, :]
    heads = tl.arange(0, BLOCK)[:, None]
    left_at = qkv + row * (PAIRS // 2 * 3 * HEAD) + heads * HEAD + 2 * angle[None, :]
    mask = (heads < PAIRS) & (angle[None, :] < HALF)
    left = tl.load(left_at, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(left_at + 1, mask=mask, other=0.0).to(tl.float32)
    tl.store(left_at, (left * cosine - right * sine).to(qkv.dtype.element_ty), mask=mask)
    tl.store(left_at + 1, (right * cosine + left * sine).to(qkv.dtype.element_ty), mask=mask)


@triton.jit
def _mean(out, x, starts, hidden, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    sequence = tl.program_id(0)
    first, end = tl.load(starts + sequence), tl.load(starts + sequence + 1)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for row in range(first, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & (columns < hidden)[None, :]
        at = x + rows.to(tl.int64)[:, None] * hidden + columns[None, :]
        total += tl.sum(tl.load(at, mask=mask, other=0.0).to(tl.float32), 0)
    length = tl.maximum(end - first, 1).to(tl.float32)
    tl.store(out + sequence * hidden + columns, total / length, mask=columns < hidden)
