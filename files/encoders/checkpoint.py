"""Reads a checkpoint directory's small files, and loads exactly the expected safetensors by name.

A missing or an extra weight means that the checkpoint was trained as a different network than the one built here, which
would still return plausible numbers. So both are errors, as is a different shape. Pickles are refused: loading a pickle
runs code.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from .errors import CheckpointError

FLOATS = ("F32", "F16", "BF16")

# Tensors a checkpoint may hold and the network does not: name pattern, and why leaving it out changes nothing.
HARMLESS = {
    r"(roberta\.|bert\.)?embeddings\.position_ids": "0, 1, 2, … saved by transformers before 4.31; computed here",
    r"(roberta\.|bert\.)?pooler\.dense\.(weight|bias)": "no pooling served here (mean, CLS, last) reads it",
}


@dataclass(frozen=True)
class Kind:
    """The dtype of a network's tensors, and a pattern of the names that always stay float32."""

    dtype: torch.dtype
    float32: str = r"(?!)"

    def of(self, name: str) -> torch.dtype:
        """The dtype of the tensor `name` on the device."""
        return torch.float32 if re.search(self.float32, name) else self.dtype


def read_json(directory: Path, name: str) -> Any:
    """The JSON object or array in `directory`/`name`.

    Raises: CheckpointError if the file is missing or is not JSON.
    """
    try:
        return json.loads((directory / name).read_text("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{directory}: {name} is missing") from None
    except ValueError as error:
        raise CheckpointError(f"{directory}/{name} is not JSON: {error}") from None


def load_strictly(wanted: Mapping[str, tuple[int, ...]], directory: Path, kind: Kind) -> dict[str, torch.Tensor]:
    """The checkpoint's tensors on the host, with exactly the `wanted` names and shapes, in the dtypes of `kind`.

    Raises: CheckpointError for missing, unexpected or duplicate names, other shapes, integer weights, pickles.
    """
    loaded: dict[str, torch.Tensor] = {}
    for path in weight_files(directory):
        for name, shape, stored, read in _tensors(path):
            if name in loaded:
                raise CheckpointError(f"{path}: {name} is stored twice")
            if any(re.fullmatch(pattern, name) for pattern in HARMLESS) and name not in wanted:
                continue
            if name in wanted and (shape != wanted[name] or stored not in FLOATS):
                raise CheckpointError(
                    f"{path}: {name} is {stored} {list(shape)}; wanted {list(wanted[name])} of {'/'.join(FLOATS)}"
                )
            loaded[name] = read().to(kind.of(name)) if name in wanted else torch.empty(0)
    _refuse_differences(directory, set(wanted), set(loaded))
    return loaded


def tensor_names(directory: Path) -> list[str]:
    """Names of all stored tensors.

    Raises: CheckpointError if there are no weights or a file cannot be read.
    """
    return [name for path in weight_files(directory) for name, *_ in _tensors(path)]


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of `directory`: the single file, or all that the index names.

    Raises: CheckpointError if there is neither, or if a file of the index is missing.
    """
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        pickles = sorted(p.name for p in directory.glob("*") if p.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl"))
        instead = f"found only a pickle, {pickles[0]}, which is never loaded" if pickles else "no weights found"
        raise CheckpointError(f"{directory}: model.safetensors or its index is missing; {instead}")
    names = sorted(set(read_json(directory, index.name)["weight_map"].values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"{index}: `{name}` is no safetensors file of this directory")
        if not (directory / name).is_file():
            raise CheckpointError(f"{directory}: {name}, named by the index, is missing")
    return [directory / name for name in names]


def _tensors(path: Path) -> Iterator[tuple[str, tuple[int, ...], str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (safe_open is no mapping)
                view = file.get_slice(name)
                yield name, tuple(view.get_shape()), view.get_dtype(), lambda name=name: file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors: {error}") from None


def _refuse_differences(directory: Path, wanted: set[str], stored: set[str]) -> None:
    parts = []
    for word, names in (("missing", wanted - stored), ("unexpected", stored - wanted)):
        if names:
            shown = ", ".join(sorted(names)[:4])
            parts.append(f"{len(names)} {word} ({shown}{', …' if len(names) > 4 else ''})")
    if parts:
        raise CheckpointError(f"{directory}: the weights are not those of this architecture: {'; '.join(parts)}")
