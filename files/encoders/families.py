"""Chooses the network by a checkpoint's config.json, and refuses every setting that the network would ignore.

Each config value that changes the arithmetic is compared with the only value that the networks here implement. The
networks are those of the modules imported here: each module registers its own architectures.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from . import bert as _bert
from . import deberta as _deberta
from . import gemma as _gemma
from . import modern as _modern
from . import nomic as _nomic
from . import qwen as _qwen
from .checkpoint import Kind, load_strictly, read_json
from .choices import Kernels
from .errors import CheckpointError
from .family import EMBEDDERS, RERANKERS, Family, Network, Reader
from .weights import Weights

__all__ = ["DTYPES", "EMBEDDERS", "RERANKERS", "Family", "Network", "choose", "load"]

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NETWORKS = (_bert, _nomic, _modern, _qwen, _gemma, _deberta)


def choose(directory: Path, register: Mapping[str, Reader]) -> Family:
    """The family of the checkpoint in `directory`, by one of the registered readers.

    Raises: CheckpointError for an unknown architecture, by name, and for an unsupported setting.
    """
    config = read_json(directory, "config.json")
    named = config.get("architectures") or []
    if len(named) != 1 or named[0] not in register:
        shown = ", ".join(named) or "none"
        raise CheckpointError(
            f"{directory}/config.json: architecture is {shown}; this model serves {', '.join(register)}"
        )
    try:
        return register[named[0]](directory, config, named[0])
    except KeyError as error:
        raise CheckpointError(f"{directory}/config.json: {error} is missing") from None


def load(family: Family, directory: Path, kernels: Kernels) -> Network:
    """`family`'s network with the weights of `directory` on the kernels' device, in their type.

    Raises: CheckpointError if the weights do not belong to this network or do not fit into memory.
    """
    try:
        tensors = load_strictly(family.shapes(), directory, Kind(kernels.dtype, family.float32))
        return family.build(Weights(tensors, kernels.device), kernels)
    except torch.OutOfMemoryError:
        raise CheckpointError(
            f"{kernels.device}: no memory for the weights of {directory} in {kernels.dtype}; raise memory_mib"
        ) from None
