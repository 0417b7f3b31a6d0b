"""Tensors in KServe's gRPC form: little-endian bytes, strings with their length before them."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

assert sys.byteorder == "little", "arrays are sent as they lie in memory"


MALFORMED = (ValueError, LookupError, TypeError, OverflowError, struct.error)
"""Exceptions of reading tensors that lack bytes, or are of another type than expected."""


@dataclass(frozen=True)
class Input:
    """A tensor to send."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes


class Output(NamedTuple):
    """A received tensor; a tuple, because each event makes three of them."""

    datatype: str
    shape: Sequence[int]
    raw: bytes

    def floats(self) -> Sequence[float]:
        """The values of an FP32 tensor of any shape, flat."""
        return array("f", self._of("FP32"))

    def ints(self) -> Sequence[int]:
        """The values of an INT32 tensor of any shape, flat."""
        return array("i", self._of("INT32"))

    def texts(self) -> list[str]:
        """The values of a BYTES tensor of any shape, flat; invalid UTF-8 is replaced."""
        raw, texts, place = self._of("BYTES"), list[str](), 0
        while place < len(raw):
            (length,) = struct.unpack_from("<I", raw, place)
            texts.append(raw[place + 4 : place + 4 + length].decode("utf-8", "replace"))
            place += 4 + length
        return texts

    def text(self) -> str:
        """The values of a BYTES tensor, joined. An LLM's event has one value."""
        raw = self._of("BYTES")
        if int.from_bytes(raw[:4], "little") == len(raw) - 4:
            return raw[4:].decode("utf-8", "replace")
        return "".join(self.texts())

    def number(self) -> int:
        """The first value of an INT32 tensor; 0 if it has none."""
        return int.from_bytes(self._of("INT32")[:4], "little", signed=True)

    def _of(self, datatype: str) -> bytes:
        if self.datatype != datatype:
            raise ValueError(f"wanted a tensor of {datatype}, got {self.datatype}")
        return self.raw


Outputs = dict[str, Output]
"""The tensors of an answer by name."""


def strings(name: str, values: Sequence[str], shape: tuple[int, ...] | None = None) -> Input:
    """A BYTES tensor of the texts, [values] unless another shape is named."""
    encoded = [value.encode() for value in values]
    raw = b"".join(piece for value in encoded for piece in (struct.pack("<I", len(value)), value))
    return Input(name, "BYTES", (len(encoded),) if shape is None else shape, raw)


def int32s(name: str, values: Sequence[int]) -> Input:
    """An INT32 tensor, [values]."""
    return Input(name, "INT32", (len(values),), array("i", values).tobytes())


def uint64(name: str, value: int) -> Input:
    """A UINT64 tensor, [1]; a negative number is taken modulo 2^64."""
    return Input(name, "UINT64", (1,), struct.pack("<Q", value % 2**64))


def fp32(name: str, value: float) -> Input:
    """An FP32 tensor, [1]."""
    return Input(name, "FP32", (1,), struct.pack("<f", value))


def boolean(name: str, value: bool) -> Input:
    """A BOOL tensor, [1]."""
    return Input(name, "BOOL", (1,), struct.pack("?", value))
