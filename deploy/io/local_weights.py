"""Reads local checkpoints: headers of safetensors files only, so that a 60 GB directory costs milliseconds."""

import hashlib
import json
import math
import struct
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

from deploy.inventory.fleet import Fleet
from deploy.io.local_paths import is_directory, json_object, local_path
from deploy.models.config_json import architecture_of, kept
from deploy.models.formats import MODELOPT_FILE, with_modelopt
from deploy.models.kinds import weights_files
from deploy.models.prompts import FILE as PROMPTS_FILE
from deploy.models.prompts import kept_prompts
from deploy.models.resolve import sources_of
from deploy.models.sentence_steps import MODULES, kept_steps, step_files
from deploy.spec.surroundings import LocalWeights, Surroundings

BITS = {"F64": 64, "I64": 64, "F32": 32, "I32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16}
"""Element sizes of safetensors' type names; every other one (U8, I8, F8_…, BOOL) is a byte."""

LFS = b"version https://git-lfs"
"""The beginning of a pointer, which a clone without Git LFS has instead of each large file."""
HEADER_LIMIT_BYTES = 100_000_000
"""Largest header that the safetensors format allows, in bytes."""
MOST_DIMENSIONS, MOST_SIZE = 16, 2**48
"""Limits of a tensor's shape: a forged header with long numbers would take hours to multiply."""


def look_around(fleet: Fleet, root: Path) -> Surroundings:
    """Today's date, and every local checkpoint directory with safetensors files that the fleet names."""
    models = (model for host in fleet.hosts for _, model in host.served_models)
    named = {weights.directory for model in models for _place, weights in sources_of(model)}
    return Surroundings(today=date.today(), local=dict(_existing(sorted(named - {""}), root)))


def read_local(directory: Path) -> LocalWeights:
    """The files of one directory, and the sums of the tensors in the files that its architecture loads."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))
    names = tuple(str(path.relative_to(directory)) for path in files)
    config, fault = _config(directory)
    counted = weights_files(names, architecture_of(config)) or names
    fingerprint, stored_bytes, parameters = hashlib.sha256(), 0, 0
    for path, name in zip(files, names, strict=True):
        size, is_weights = path.stat().st_size, path.suffix == ".safetensors"
        head = _header(path) if is_weights else path.read_bytes() if size < 2**24 else b""
        fingerprint.update(f"{name}\0{size}\0".encode() + head)
        if is_weights and name in counted:
            fault = fault or _fault(path, name, size, head)
        for shape, kind in tensors(head) if is_weights and name in counted else ():
            stored_bytes += math.prod(shape) * BITS.get(kind, 8) // 8
            parameters += math.prod(shape)
    return LocalWeights(
        revision=f"local-{fingerprint.hexdigest()[:16]}",
        stored_bytes=stored_bytes,
        parameters=parameters,
        files=names,
        config=config,
        fault=fault,
    )


def _existing(names: Iterable[str], root: Path) -> Iterable[tuple[str, LocalWeights]]:
    for name in names:
        directory = local_path(name, root)
        if is_directory(directory) and any(directory.glob("*.safetensors")):
            yield name, read_local(directory)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        return file.read(min(length, HEADER_LIMIT_BYTES))


def tensors(header: bytes) -> Iterable[tuple[list[int], str]]:
    """Shape and type of each tensor in a safetensors header; empty for a damaged header."""
    try:
        described = json.loads(header)
    except (ValueError, RecursionError):
        return
    for name, tensor in described.items() if isinstance(described, dict) else ():
        shape, kind = (tensor.get("shape"), tensor.get("dtype")) if isinstance(tensor, dict) else (None, None)
        if name != "__metadata__" and isinstance(kind, str) and _is_shape(shape):
            yield shape, kind


def _fault(path: Path, name: str, size: int, header: bytes) -> str:
    """The damage of a safetensors file; empty for a whole one."""
    if is_pointer(path):
        return f"{name}: a pointer of Git LFS, not the file; `git lfs pull` fetches it"
    described = list(tensors(header))
    if not described:
        return f"{name}: {size:,} bytes without a header of safetensors"
    needed = described_bytes(header)
    return f"{name}: {size:,} of {needed:,} bytes, a copy or a download that was cut" if size < needed else ""


def described_bytes(header: bytes) -> int:
    """Bytes of a safetensors file whose header is readable: length, header, and the end of its last tensor."""
    ends = (tensor.get("data_offsets") for tensor in json.loads(header).values() if isinstance(tensor, dict))
    last = max((end[1] for end in ends if isinstance(end, list) and len(end) == 2 and type(end[1]) is int), default=0)
    return 8 + len(header) + last


def is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(LFS)) == LFS


def is_file_name(name: str) -> bool:
    """True if the name, from an untrusted list, is a path inside its folder that fits on a line."""
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & set(name.split("/"))


def _is_shape(shape: object) -> TypeGuard[list[int]]:
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        return False
    return all(type(size) is int and 0 <= size <= MOST_SIZE for size in shape)


def _config(directory: Path) -> tuple[dict[str, Any], str]:
    """The part of config.json that the planner reads, and its fault; empty if the file is missing or unreadable."""
    file = directory / "config.json"
    try:
        fault = "" if isinstance(json.loads(file.read_text("utf-8")), dict) else "config.json: no JSON object"
    except (OSError, ValueError, RecursionError) as error:
        fault = "no config.json" if isinstance(error, FileNotFoundError) else f"config.json: {error}"
    config = with_modelopt(json_object(file), json_object(directory / MODELOPT_FILE))
    names = [str(path.relative_to(directory)) for path in (*directory.glob("*"), *directory.glob("*/config.json"))]
    parts = {name: json_object(directory / name, list if name == MODULES else dict) for name in step_files(names)}
    prompts = json_object(directory / PROMPTS_FILE)
    return ({**kept(config), **kept_prompts(prompts), **kept_steps(parts)} if config else {}), fault
