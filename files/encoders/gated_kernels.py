"""The steps of `gated_steps`, each as one kernel in the Triton language (CUDA only).

Sums, norms and activations are always float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import gelu
from .gated_steps import Scale
from .plain import States

GATED = 1024
"""Columns of one program of `gate`."""
ACTIVATIONS = {"silu": 0, "gelu": 1, "gelu_pytorch_tanh": 2}


def add_scaled(y: Tensor, x: Tensor, after: Scale | None, norm: Scale | None, kind: torch.dtype) -> States:
    """The float32 sum of gated_steps.add_scaled and its norm, both [tokens, hidden], as y and float32 x are."""
    rows, hidden = x.shape
    narrow, wide = torch.empty((rows, hidden), dtype=kind, device=x.device), torch.empty_like(x)
    _add_scaled[(rows,)](
        narrow, wide, y, x, after.weight if after else x, norm.weight if norm else x, hidden,
        after.epsilon if after else 0.0, norm.epsilon if norm else 0.0,
        AFTER=_form(after), NORM=_form(norm), BLOCK=triton.next_power_of_2(hidden), num_warps=4,
    )  # fmt: skip
    return States(narrow, wide)


def _form(norm: Scale | None) -> int:
    return 0 if norm is None else 2 if norm.centred else 1


def turn(qkv: Tensor, positions: Tensor, turns: Tensor, queries: int, norms: tuple[Scale, Scale] | None) -> Tensor:
    """The rotated qkv [tokens, heads, head] of gated_steps.turn, in place."""
    tokens, heads, head = qkv.shape
    first, second = (norms[0].weight, norms[1].weight) if norms else (turns, turns)
    _turn[(tokens,)](
        qkv, positions, turns, first, second, norms[0].epsilon if norms else 0.0,
        HEADS=heads, QUERIES=queries, TURNED=(heads + queries) // 2, HALF=head // 2, NORMED=norms is not None,
        ROWS=triton.next_power_of_2((heads + queries) // 2), WIDE=triton.next_power_of_2(head // 2), num_warps=4,
    )  # fmt: skip
    return qkv


def gate(x: Tensor, activation: str) -> Tensor:
    """The gated values [tokens, inner] of gated_steps.gate, for [tokens, 2 x inner]."""
    rows, inner = len(x), x.shape[1] // 2
    out = torch.empty((rows, inner), dtype=x.dtype, device=x.device)
    _gate[(rows, triton.cdiv(inner, GATED))](out, x, inner, KIND=ACTIVATIONS[activation], BLOCK=GATED, num_warps=4)
    return out


@triton.jit
def _scaled(x, mask, weight, columns, hidden, epsilon, FORM: tl.constexpr):
    if FORM == 0:
        return x
    if FORM == 2:
        x = tl.where(mask, x - tl.sum(x, 0) / hidden, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / hidden + epsilon)
    return x * scale * tl.load(weight + columns, mask=mask, other=0.0)


@triton.jit
def _add_scaled(narrow, wide, y, x, after, norm, hidden, after_epsilon, norm_epsilon,
                AFTER: tl.constexpr, NORM: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < hidden
    added = tl.load(y + row * hidden + columns, mask=mask, other=0.0).to(tl.float32)
    added = _scaled(added, mask, after, columns, hidden, after_epsilon, AFTER)
    total = tl.load(x + row * hidden + columns, mask=mask, other=0.0) + added
    tl.store(wide + row * hidden + columns, total, mask=mask)
    total = _scaled(total, mask, norm, columns, hidden, norm_epsilon, NORM)
    tl.store(narrow + row * hidden + columns, total.to(narrow.dtype.element_ty), mask=mask)


@triton.jit
def _turn(qkv, positions, turns, first, second, epsilon, HEADS: tl.constexpr, QUERIES: tl.constexpr,
          TURNED: tl.constexpr, HALF: tl.constexpr, NORMED: tl.constexpr,
          ROWS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """Rotates the query and key heads of one token; the value heads after them stay unchanged."""
    token = tl.program_id(0).to(tl.int64)
    heads, angle = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDE)[None, :]
    mask = (heads < TURNED) & (angle < HALF)
    base = turns + tl.load(positions + token).to(tl.int64) * (2 * HALF)
    cosine = tl.load(base + angle, mask=angle < HALF, other=0.0)
    sine = tl.load(base + HALF + angle, mask=angle < HALF, other=0.0)
    at = qkv + (token * HEADS + heads) * (2 * HALF) + angle
    left = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(at + HALF, mask=mask, other=0.0).to(tl.float32)
    if NORMED:
        squares = tl.sum(left * left, 1) + tl.sum(right * right, 1)
        scale = (1.0 / tl.sqrt(squares / (2 * HALF) + epsilon))[:, None]
        query, key = mask & (heads < QUERIES), mask & (heads >= QUERIES)
        left_weight = tl.load(first + angle + heads * 0, mask=query, other=0.0)
        left_weight += tl.load(second + angle + heads * 0, mask=key, other=0.0)
        right_weight = tl.load(first + HALF + angle + heads * 0, mask=query, other=0.0)
        right_weight += tl.load(second + HALF + angle + heads * 0, mask=key, other=0.0)
        left, right = left * scale * left_weight, right * scale * right_weight
    tl.store(at, (left * cosine - right * sine).to(qkv.dtype.element_ty), mask=mask)
    tl.store(at + HALF, (right * cosine + left * sine).to(qkv.dtype.element_ty), mask=mask)


@triton.jit
def _gate(out, x, inner, KIND: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < inner
    scale = tl.load(x + row * 2 * inner + columns, mask=mask, other=0.0).to(tl.float32)
    value = tl.load(x + row * 2 * inner + inner + columns, mask=mask, other=0.0).to(tl.float32)
    if KIND == 0:
        scale = scale / (1.0 + tl.exp(-scale))
    elif KIND == 1:
        scale = gelu(scale)
    else:
        z = scale * (0.7978845608028654 + 0.035677408136300125 * (scale * scale))
        scale = scale / (1.0 + tl.exp(-2.0 * z))
    tl.store(out + row * inner + columns, (scale * value).to(out.dtype.element_ty), mask=mask)
