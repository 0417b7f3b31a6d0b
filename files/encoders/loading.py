"""Loads a checkpoint into a warm runner: device, kernels, weights and, if configured, 8-bit products."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from . import families, float8
from .choices import Kernels, choose
from .device import Runner, stand_in
from .errors import CheckpointError
from .family import Family, Network
from .packing import Packed
from .settings import Settings

CALIBRATION_TOKENS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

Finish = Callable[[Tensor, Packed], Tensor]


def start(
    settings: Settings, family: Family, limit: int, finish: Callable[[Kernels], Finish]
) -> tuple[Runner, int, list[str]]:
    """The runner, its token budget, and lines for the log; `limit` is the longest sequence.

    Raises: CheckpointError if the weights are wrong, memory does not suffice, or 8-bit products are too inexact.
    """
    if settings.products and (family.float32_residuals or family.reads_lengths):
        raise CheckpointError("config.pbtxt: products is `fp8`; this network has no 8-bit products here, leave it out")
    if settings.dtype == "fp16" and not family.fits_float16:
        raise CheckpointError("config.pbtxt: dtype is `fp16`, which does not hold this network's states; say `bf16`")
    kernels = choose(settings.device, families.DTYPES[settings.dtype], family.mixture, family.float32_residuals)
    kernels.silent = kernels.silent and not family.reads_lengths
    network = families.load(family, Path(settings.model_path), kernels)
    if settings.products == "fp8":
        moved = float8.narrow(network.trunk, kernels, lambda: calibration_states(network, kernels, family, limit))
        kernels.notes.append(f"fp8 products (states moved by 1 - cosine {moved:.5f})")
    runner = Runner(network, kernels, family, finish(kernels), settings.streams)
    return runner, runner.warm_up(limit, settings.max_batch_tokens), kernels.notes


def calibration_states(network: Network, kernels: Kernels, family: Family, limit: int) -> np.ndarray:
    """Mean states of random sequences, float32 [sequences, hidden]."""
    trunk = Runner(network.trunk, kernels, family, lambda states, batch: kernels.steps.mean(states, batch.starts))
    generator = np.random.default_rng(1)
    rows = [stand_in(min(tokens, limit), family, generator) for tokens in CALIBRATION_TOKENS]
    with torch.inference_mode():
        return trunk(rows)
