"""Rewrites PyTorch's pytorch_model.bin as model.safetensors, without running any code of the file.

Such a file is a zip archive: the numbers as in memory, and a pickle with the start of each tensor. A pickle is a
program; here it is read as a list of instructions, and only the instructions that torch.save writes for a table of
tensors are accepted. No name in it is imported or called: each is compared with the few names of tensors. Any other
name is refused.

Standard library only. `host.fetch` uses it before files are published, so no host stores a pickle.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import math
import pickletools
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from host.hub import Refused
from host.systemd import say

CONVERTED = "pytorch_model.bin"
"""A pickle that is fetched, to be rewritten, if the requested files name it and its folder has no safetensors."""
MIB = 1 << 20
MOST_PICKLE_BYTES, MOST_INSTRUCTIONS = 1 << 26, 1 << 22
CHUNK = 1 << 22
STORAGES = {
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "DoubleStorage": ("F64", 8),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "BoolStorage": ("BOOL", 1),
}
"""Names of torch's storages: the type in safetensors, and the bytes of a number."""


class Unreadable(Exception):
    """The file is not an archive of plain tensors; the message names its content."""


class Name(NamedTuple):
    """A name that the pickle would import."""

    module: str
    name: str


class Storage(NamedTuple):
    """An entry of the archive that holds numbers."""

    key: str
    kind: str
    width: int


@dataclass(frozen=True)
class Tensor:
    """A tensor by the place of its first number in its storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.storage.width


MARK = object()
TENSOR, PARAMETER = Name("torch._utils", "_rebuild_tensor_v2"), Name("torch._utils", "_rebuild_parameter")
TABLE = Name("collections", "OrderedDict")
PUSHED = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINFLOAT")
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def converted(staging: Path, sums: dict[str, str]) -> dict[str, str]:
    """`sums` after every pytorch_model.bin is rewritten as safetensors; removes the pickles."""
    kept = dict(sums)
    for name in sums:
        if not is_converted(name):
            continue
        source, target = staging / name, staging / name.replace(CONVERTED, "model.safetensors")
        size, free = source.stat().st_size, shutil.disk_usage(staging).free
        if size > free:
            raise Refused(f"{name} needs {size // MIB:,} MiB more as safetensors and {free // MIB:,} MiB are free")
        try:
            kept[str(target.relative_to(staging))] = convert(source, target)
        except Unreadable as problem:
            raise Refused(f"{name} cannot be rewritten as safetensors: {problem}") from None
        del kept[name]
    for name in set(sums) - set(kept):
        (staging / name).unlink()
        say(f"{name} was rewritten as safetensors; nothing in it was run")
    return kept


def is_converted(name: str) -> bool:
    return name.rsplit("/", 1)[-1] == CONVERTED


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """True if a pattern names exactly this pytorch_model.bin, and does not match every file."""
    named = [pattern for pattern in patterns if pattern.endswith(CONVERTED)]
    return is_converted(name) and any(fnmatch.fnmatchcase(name, pattern) for pattern in named)


def published(patterns: Iterable[str]) -> list[str]:
    """The patterns, with the safetensors into which every pytorch_model.bin among them is rewritten."""
    named = list(patterns)
    return named + [name.replace(CONVERTED, "model.safetensors") for name in named if is_converted(name)]


def convert(source: Path, target: Path) -> str:
    """Writes the tensors of `source` to `target`, and returns its sha256. Raises: Unreadable, OSError."""
    try:
        with zipfile.ZipFile(source) as archive:
            return _written(archive, source.name, target)
    except zipfile.BadZipFile:
        raise Unreadable(f"{source.name} is not a zip archive: older than PyTorch 1.6, or incomplete") from None


def _written(archive: zipfile.ZipFile, name: str, target: Path) -> str:
    root = _root(archive, name)
    tensors = table(archive.read(f"{root}data.pkl"))
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    header: dict[str, Any] = {}
    end = 0
    for tensor_name, tensor in sorted(tensors.items()):
        _judge(tensor_name, tensor, sizes.get(f"{root}data/{tensor.storage.key}", 0))
        begin, end = end, end + tensor.size_bytes
        place = {"data_offsets": [begin, end]}
        header[tensor_name] = {"dtype": tensor.storage.kind, "shape": list(tensor.shape)} | place
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    head += b" " * (-len(head) % 8)
    digest = hashlib.sha256()
    with target.open("wb") as file:
        for part in (len(head).to_bytes(8, "little"), head):
            digest.update(part)
            file.write(part)
        for _, tensor in sorted(tensors.items()):
            for part in _numbers(archive, root, tensor):
                digest.update(part)
                file.write(part)
    return digest.hexdigest()


def _root(archive: zipfile.ZipFile, name: str) -> str:
    """The folder of the archive, with its slash."""
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in archive.infolist()):
        raise Unreadable(f"{name} is compressed or encrypted, which torch.save does not do")
    pickles = [entry for entry in archive.infolist() if entry.filename.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise Unreadable(f"{name} has {len(pickles)} tables of tensors; wanted the archive of torch.save")
    if pickles[0].file_size > MOST_PICKLE_BYTES:
        raise Unreadable(f"{name}: its table of tensors has {pickles[0].file_size:,} bytes")
    root = pickles[0].filename.removesuffix("data.pkl")
    if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
        raise Unreadable(f"{name} was written on a big-endian machine")
    return root


def _judge(name: str, tensor: Tensor, stored_bytes: int) -> None:
    """Checks that the tensor is contiguous, in order, and inside its storage. Raises: Unreadable."""
    wanted = [math.prod(tensor.shape[place + 1 :]) for place in range(len(tensor.shape))]
    in_order = all(
        size <= 1 or stride == step for size, stride, step in zip(tensor.shape, tensor.strides, wanted, strict=True)
    )
    if not in_order and tensor.size_bytes:
        raise Unreadable(f"{name} is stored in another order than it is read, strides {list(tensor.strides)}")
    if tensor.offset < 0 or tensor.offset * tensor.storage.width + tensor.size_bytes > stored_bytes:
        raise Unreadable(f"{name} reaches beyond the {stored_bytes:,} bytes of its storage")


def _numbers(archive: zipfile.ZipFile, root: str, tensor: Tensor) -> Iterator[bytes]:
    left = tensor.size_bytes
    if not left:
        return
    with archive.open(f"{root}data/{tensor.storage.key}") as entry:
        entry.seek(tensor.offset * tensor.storage.width)
        while left:
            part = entry.read(min(left, CHUNK))
            if not part:
                raise Unreadable(f"the storage {tensor.storage.key} ends early")
            left -= len(part)
            yield part


def table(pickle: bytes) -> dict[str, Tensor]:
    """The tensors in a pickle of torch.save. Raises: Unreadable for anything but tensors."""
    try:
        value: object = _Reader().value(pickle)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise Unreadable(f"the table of tensors is not a pickle of torch.save: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise Unreadable("the file has more than a table of tensors")
    tensors = {name: tensor for name, tensor in value.items() if isinstance(tensor, Tensor)}
    if strange := [name for name in value if name not in tensors]:
        raise Unreadable(f"the file has more than a table of tensors, {strange[0]!r} for example")
    return tensors


class _Reader:
    """The instructions of one pickle, and the values stored so far."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def value(self, pickle: bytes) -> Any:
        """The value that the archive's pickle describes."""
        for count, (instruction, argument, _) in enumerate(pickletools.genops(pickle)):
            if count > MOST_INSTRUCTIONS:
                raise Unreadable("the table of tensors has too many entries")
            if instruction.name == "STOP":
                return self.stack.pop()
            self._do(instruction.name, argument)
        raise Unreadable("the table of tensors ends early")

    def _do(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in PUSHED:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in TUPLES:
            stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name == "MARK":
            stack.append(MARK)
        elif name == "TUPLE":
            stack.append(tuple(self._above_mark()))
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memory[len(self.memory) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memory[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(self._name(argument))
        elif name in ("SETITEM", "SETITEMS"):
            pairs = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._above_mark()
            if type(stack[-1]) is not dict:
                raise Unreadable("the file adds entries to something other than a table")
            stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_made(stack.pop(), arguments))
        elif name == "BUILD":
            stack.pop()  # attributes of the table: versions of its modules
        elif name not in ("PROTO", "FRAME"):
            raise Unreadable(f"the file has the instruction {name}, which a table of tensors does not need")

    def _above_mark(self) -> list[Any]:
        place = len(self.stack) - 1 - next(i for i, value in enumerate(reversed(self.stack)) if value is MARK)
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def _name(self, argument: str | None) -> Name:
        if argument is None:
            name = self.stack.pop()
            return Name(self.stack.pop(), name)
        return Name(*argument.split(" ", 1))


def _storage(reference: Any) -> Storage:
    word, kind, key = reference[:3]
    if word != "storage" or not isinstance(kind, Name) or kind.module != "torch" or kind.name not in STORAGES:
        raise Unreadable(f"the file refers to {kind!r}, which is not a storage of plain numbers")
    if not (isinstance(key, str) and key.isascii() and key.isdigit()):
        raise Unreadable(f"the file refers to a storage called {key!r}")
    return Storage(key, *STORAGES[kind.name])


def _made(function: Any, arguments: Any) -> Any:
    """The result of a call that torch.save writes for a table, a tensor or a parameter."""
    if function == TABLE and arguments == ():
        return {}
    if function == PARAMETER and isinstance(arguments[0], Tensor):
        return arguments[0]
    if function == TENSOR and isinstance(arguments[0], Storage):
        storage, offset, shape, strides = arguments[:4]
        if all(type(number) is int and number >= 0 for number in (offset, *shape, *strides)):
            return Tensor(storage, offset, tuple(shape), tuple(strides))
    named = f"{function.module}.{function.name}" if isinstance(function, Name) else "a value"
    raise Unreadable(f"the file wants {named} to be called; only tensors are accepted")
