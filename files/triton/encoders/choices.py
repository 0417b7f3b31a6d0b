"""Which implementation of each step runs on this device, chosen once at start by trying them, best first.

A candidate is taken if it can be found and agrees with the plain computation on a small random input. A name that
another torch release lacks, a missing package, a compiler that is not there: each only means the next candidate, and
the log says which was taken and what was passed over.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from . import attention, plain, routing

Found = TypeVar("Found")


@dataclass
class Kernels:
    """What the networks call, and where they run."""

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    steps: ModuleType | Any = plain
    attend: attention.Attention = attention.sequences
    route: Callable[[Tensor, Tensor, int], routing.Routing] = routing.route
    experts: Callable[[Tensor, routing.Routing, Tensor, Tensor], Tensor] = routing.one_by_one
    silent: bool = False
    """Nothing in a pass reads back from the device, so that it can be captured in a CUDA graph."""
    notes: list[str] = field(default_factory=list)
    """For the log: what was chosen and what was passed over, why."""


def choose(device: str, dtype: torch.dtype, mixture: bool = True) -> Kernels:
    """The best kernels that work on `device` for tensors of `dtype`."""
    kernels = Kernels(device, dtype)
    if device == "cpu":
        kernels.notes.append("steps plain, attention sequences, experts one_by_one")
        return kernels
    steps = _first(kernels, "steps", {"fused": fused}, plain, lambda found: _steps_agree(found, device, dtype))
    flash = attention.FLASH if dtype != torch.float32 else {}
    kernels.attend = _first(
        kernels, "attention", flash, attention.sequences, lambda found: _attention_agrees(found, device, dtype)
    )
    kernels.steps = steps
    if mixture:
        pair = (routing.route, routing.one_by_one)
        kernels.route, kernels.experts = _first(
            kernels, "experts", expert_ways(dtype), pair, lambda found: _experts_agree(found, device, dtype)
        )
    kernels.silent = kernels.attend is not attention.sequences and kernels.experts is not routing.one_by_one
    kernels.silent = kernels.silent or (not mixture and kernels.attend is not attention.sequences)
    return kernels


def fused() -> ModuleType:
    """The steps in the Triton language; its compiler is imported only here."""
    from . import fused

    return fused


def own_experts() -> tuple[Any, Any]:
    """Routing and expert products in the Triton language."""
    from . import expert_kernels

    return expert_kernels.route, expert_kernels.experts


def grouped_mm() -> tuple[Any, Any]:
    """torch's grouped product: public since 2.10, `torch._grouped_mm` before."""
    product = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return routing.route, routing.grouped(product)


def expert_ways(dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Best first. torch's grouped product has a fast path for bfloat16 alone."""
    return {"own": own_experts} | ({"grouped_mm": grouped_mm} if dtype == torch.bfloat16 else {})


def _first(kernels: Kernels, what: str, ways: dict[str, Callable[[], Any]], last: Any, agrees: Callable) -> Any:
    passed = []
    for name, find in ways.items():
        try:
            found = find()
            if agrees(found):
                kernels.notes.append(f"{what} {name}" + (f" (passed over: {'; '.join(passed)})" if passed else ""))
                return found
            passed.append(f"{name} disagrees")
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever an optional package or a compiler raises
            passed.append(f"{name}: {type(error).__name__}")
    kernels.notes.append(f"{what} plain" + (f" (passed over: {'; '.join(passed)})" if passed else ""))
    return last


def _steps_agree(steps: Any, device: str, dtype: torch.dtype) -> bool:
    x, y = _random(device, dtype, 5, 96), _random(device, dtype, 5, 96)
    norm = plain.Norm(x[0], y[0], 1e-5)
    return _near((steps.add_norm(y, x, norm), plain.add_norm(y, x, norm)))


def _attention_agrees(attend: attention.Attention, device: str, dtype: torch.dtype) -> bool:
    q, k, v = (_random(device, dtype, 40, 2, 64) for _ in range(3))
    starts = torch.tensor([0, 3, 40], dtype=torch.int32, device=device)
    return _near((attend(q, k, v, starts, 37), attention.sequences(q, k, v, starts, 37)))


def _experts_agree(pair: tuple[Any, Any], device: str, dtype: torch.dtype) -> bool:
    x, router = _random(device, dtype, 70, 64), _random(device, torch.float32, 8, 64)
    up, down = _random(device, dtype, 8, 128, 64) / 8, _random(device, dtype, 8, 128, 64) / 8
    wanted = routing.one_by_one(x, routing.route(x, router, 2), up, down)
    return _near((pair[1](x, pair[0](x, router, 2), up, down), wanted))


def _random(device: str, dtype: torch.dtype, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(device, dtype)


def _near(pair: Iterable[Tensor]) -> bool:
    got, wanted = (tensor.float() for tensor in pair)
    return bool((got - wanted).abs().max() <= 0.03 * wanted.abs().max())
