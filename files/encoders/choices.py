"""Chooses the implementation of each step for this device, once at start, by trying them, best first.

A candidate is chosen if it can be imported and agrees with the plain computation on a small random input. If the torch
release lacks a function, or a package or compiler is missing, the next candidate is tried. The log names the chosen
candidates and the rejected ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from . import attention, gated_steps, linear, plain, routing
from .packing import Packed, form, pack

SEQUENCES = attention.adapted(attention.sequences, plain)
MANY = 20_480
"""Rows of a trial: enough for more tiles than a GPU has multiprocessors, so that each program computes several
tiles."""
TWO_STEPS = linear.in_two_steps(plain.gelu_)
THEN_ROTATED = linear.then_rotated(plain.rotate_)
Agrees = Callable[[Any, str, torch.dtype], bool]
"""True if the candidate's output matches the plain computation on this device, in this type."""


@dataclass
class Kernels:
    """The kernels that the networks call, and the device that they run on."""

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    steps: plain.Steps = plain
    attend: attention.Attention = SEQUENCES
    mix: attention.Mixing = attention.mixed_by_sequence
    """Attention of families with `Family.float32_residuals`."""
    gated: gated_steps.Steps = gated_steps
    """The steps between matrix products of families with `Family.float32_residuals`."""
    activated: linear.Activated = TWO_STEPS
    """GELU of a projection."""
    rotated: linear.Rotated = THEN_ROTATED
    """A projection to queries, keys and values, with queries and keys rotated."""
    product: Callable[..., Tensor] | None = None
    """The product of product_kernels, which also takes and returns 8-bit tensors."""
    route: Callable[[Tensor, Tensor, int], routing.Routing] = routing.route
    experts: Callable[[Tensor, routing.Routing, Tensor, Tensor], Tensor] = routing.one_by_one
    silent: bool = False
    """True if no step of a pass reads back from the device, so that the pass can be captured in a CUDA graph."""
    tiled: bool = False
    """True if attention follows the pass's tiles, so that a graph computes no more than the sequences in it."""
    notes: list[str] = field(default_factory=list)
    """Lines for the log: the chosen candidates, and the rejected ones with the reason."""


def choose(device: str, dtype: torch.dtype, mixture: bool = True, float32_residuals: bool = False) -> Kernels:
    """The best kernels that work on `device` for tensors of `dtype`.

    Raises: torch.OutOfMemoryError if a trial runs out of memory.
    """
    kernels = Kernels(device, dtype)
    if device == "cpu":
        kernels.notes.append("plain steps")
        return kernels
    half = dtype != torch.float32
    steps: plain.Steps = _first(kernels, "steps", {"fused": fused}, plain, _steps_agree)
    slow = attention.adapted(attention.sequences, steps)
    fast = attention.implementations(steps) if half else {}
    kernels.attend = _first(kernels, "attention", fast, slow, _attention_agrees)
    own = _first(kernels, "products", {"own": own_products} if half else {}, None, _products_agree)
    kernels.product = own and own.product
    gelus = {"in the product": linear.in_one_product} if half else {}
    kernels.activated = _first(kernels, "gelu", gelus, linear.in_two_steps(steps.gelu_), _activated_agrees)
    kernels.rotated = linear.then_rotated(steps.rotate_)
    if own:
        kernels.activated = linear.by_rows(kernels.activated, own.activated)
        kernels.rotated = linear.by_rows(kernels.rotated, own.rotated)
    if mixture:
        pair = (routing.route, routing.one_by_one)
        kernels.route, kernels.experts = _first(kernels, "experts", expert_implementations(dtype), pair, _experts_agree)
    if float32_residuals:
        kernels.mix = _first(
            kernels, "attention in windows", attention.mixings() if half else {}, kernels.mix, _mixing_agrees
        )
        kernels.gated = _first(kernels, "gated steps", {"fused": fused_gated}, gated_steps, _gated_agree)
    kernels.steps = steps
    kernels.tiled = not float32_residuals and any(note.startswith("attention own") for note in kernels.notes)
    if float32_residuals:
        kernels.silent = kernels.mix is not attention.mixed_by_sequence
        return kernels
    kernels.silent = kernels.attend is not slow and not (mixture and kernels.experts is routing.one_by_one)
    torch.cuda.empty_cache()  # leaves the memory of the trials to the network
    return kernels


def fused() -> plain.Steps:
    """The steps in the Triton language; its compiler is imported only here.

    Raises: ImportError if the Triton language is not installed.
    """
    from . import fused

    return fused


def fused_gated() -> gated_steps.Steps:
    """The steps of gated networks in the Triton language.

    Raises: ImportError if the Triton language is not installed.
    """
    from . import gated_kernels

    return gated_kernels


def own_products() -> Any:
    """The module of matrix products in the Triton language, for GPUs with a tensor memory accelerator.

    Raises: ImportError without the Triton language, NotImplementedError before compute capability 9.0.
    """
    from . import product_kernels

    _require_accelerator()
    return product_kernels


def _require_accelerator() -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        raise NotImplementedError("the tensor memory accelerator came with compute capability 9.0")


def own_experts() -> tuple[Any, Any]:
    """Routing and expert products in the Triton language, with the products of `own_products`.

    Raises the exceptions of `own_products`.
    """
    from . import expert_kernels, expert_tiles

    _require_accelerator()
    return expert_kernels.route, expert_tiles.experts


def own_experts_by_pointers() -> tuple[Any, Any]:
    """Routing and expert products for every device and release that the Triton language knows.

    Raises: ImportError if the Triton language is not installed.
    """
    from . import expert_kernels

    return expert_kernels.route, expert_kernels.experts


def grouped_mm() -> tuple[Any, Any]:
    """Routing, and expert products by torch's grouped product: public since 2.10, `torch._grouped_mm` before.

    Raises: AttributeError if torch has neither.
    """
    product = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return routing.route, routing.grouped(product)


def expert_implementations(dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Functions that look up implementations of routing and expert products, by name, best first.

    The first is for 16-bit types; torch's grouped product is fast only in bfloat16.
    """
    tiles = {} if dtype == torch.float32 else {"own": own_experts}
    own = tiles | {"own by pointers": own_experts_by_pointers}
    return own | ({"grouped_mm": grouped_mm} if dtype == torch.bfloat16 else {})


def _first(kernels: Kernels, what: str, finders: dict[str, Callable[[], Any]], last: Any, agrees: Agrees) -> Any:
    """The first candidate of `finders` that agrees with the plain computation, else `last`; notes for the log."""
    passed: list[str] = []
    for name, find in finders.items():
        try:
            candidate = find()
            if agrees(candidate, kernels.device, kernels.dtype):
                kernels.notes.append(f"{what} {name}" + (f" (passed over: {'; '.join(passed)})" if passed else ""))
                return candidate
            passed.append(f"{name} disagrees")
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever an optional package or a compiler raises
            passed.append(f"{name}: {type(error).__name__}")
    kernels.notes.append(f"{what} plain" + (f" (passed over: {'; '.join(passed)})" if passed else ""))
    return last


def _steps_agree(steps: plain.Steps, device: str, dtype: torch.dtype) -> bool:
    x, y = _random(device, dtype, 5, 96), _random(device, dtype, 5, 96)
    norm = plain.Norm(x[0], y[0], 1e-5)
    got, wanted = steps.add_norm(y, x[1], x, norm), plain.add_norm(y, x[1], x, norm)
    return _near(got.narrow, wanted.narrow) and _near(got.wide, wanted.wide)


def _gated_agree(steps: gated_steps.Steps, device: str, dtype: torch.dtype) -> bool:
    x, y = _random(device, torch.float32, 5, 96), _random(device, dtype, 5, 96)
    turns, positions = _random(device, torch.float32, 9, 96), torch.arange(5, device=device, dtype=torch.int32)
    rms, centred = (gated_steps.Scale(x[0], 1e-5, is_centred) for is_centred in (False, True))
    agreed = []
    for after, norm, kind in ((None, centred, dtype), (rms, rms, torch.float32), (None, None, dtype)):
        got, wanted = (way.add_scaled(y, x, after, norm, kind) for way in (steps, gated_steps))
        agreed += [_near(got.narrow, wanted.narrow), _near(got.wide, wanted.wide)]
    for norms in (None, (rms, rms)):
        qkv = _random(device, dtype, 5, 7, 96)
        wanted = gated_steps.turn(qkv.clone(), positions, turns, 3, norms)
        agreed.append(_near(steps.turn(qkv, positions, turns, 3, norms), wanted))
    for activation in ("silu", "gelu", "gelu_pytorch_tanh"):
        agreed.append(_near(steps.gate(y, activation), gated_steps.gate(y, activation)))
    return all(agreed)


def _attention_agrees(attend: attention.Attention, device: str, dtype: torch.dtype) -> bool:
    qkv = _random(device, dtype, 80, 3 * 2 * 64)
    texts = [np.zeros(3, np.int32), np.zeros(77, np.int32)]
    room = form(texts)
    batch = Packed.of_row(torch.from_numpy(pack(texts, room, 0)).to(device), room)
    return _near(attend(qkv, 2, batch), SEQUENCES(qkv, 2, batch))


def _mixing_agrees(mix: attention.Mixing, device: str, dtype: torch.dtype) -> bool:
    texts = [np.zeros(3, np.int32), np.zeros(77, np.int32)]
    room = form(texts)
    batch = Packed.of_row(torch.from_numpy(pack(texts, room, 0)).to(device), room)
    for head in (64, 128, 256):
        query, key, value = _random(device, dtype, 80, 8, head).split((4, 2, 2), dim=1)
        for causal, window in ((True, 0), (False, 5), (False, 0)):
            parts = (query, key, value, batch, causal, window)
            if not _near(mix(*parts), attention.mixed_by_sequence(*parts)):
                return False
    return True


def _products_agree(own: Any, device: str, dtype: torch.dtype) -> bool:
    projection = linear.Linear(_random(device, dtype, 384, 128), _random(device, dtype, 384))
    x, turns = _random(device, dtype, MANY, 128), _random(device, torch.float32, 80, 64)
    positions = torch.arange(MANY, device=device, dtype=torch.int32) % len(turns)
    rotated = _near(own.rotated(x, projection, positions, turns), THEN_ROTATED(x, projection, positions, turns))
    return rotated and _near(own.activated(x, projection), TWO_STEPS(x, projection))


def _activated_agrees(activated: linear.Activated, device: str, dtype: torch.dtype) -> bool:
    x = _random(device, dtype, 32, 64)
    projection = linear.Linear(_random(device, dtype, 128, 64), _random(device, dtype, 128))
    return _near(activated(x, projection), plain.gelu_(projection(x)))


def _experts_agree(pair: tuple[Any, Any], device: str, dtype: torch.dtype) -> bool:
    router = _random(device, torch.float32, 8, 64)
    up, down = _random(device, dtype, 8, 128, 64) / 8, _random(device, dtype, 8, 128, 64) / 8
    for tokens in (70, MANY):
        x = _random(device, dtype, tokens, 64)
        got = pair[1](x, pair[0](x, router, 2), up, down)
        wanted = routing.one_by_one(x, routing.route(x, router, 2), up, down)
        # A few tokens may lie so evenly between two experts that both choices are right; a tile is 128 of 40,960 rows.
        if not _near_rows(got, wanted).float().mean() > 0.999:
            return False
    return True


def _random(device: str, dtype: torch.dtype, *shape: int) -> Tensor:
    """Normally distributed numbers of `shape`, the same on every device."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(device, dtype)


def _near(got: Tensor, wanted: Tensor) -> bool:
    return bool(_near_rows(got, wanted).all())


def _near_rows(got: Tensor, wanted: Tensor) -> Tensor:
    """True for each row, bool [rows], that differs by at most 3 % of the largest value in `wanted`."""
    return ((got.float() - wanted.float()).abs() <= 0.03 * wanted.float().abs().max()).flatten(1).all(1)
