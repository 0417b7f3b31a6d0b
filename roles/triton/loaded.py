"""What Triton loads for one planned model; on the engine path that is several models."""

from __future__ import annotations

from dataclasses import dataclass

Conversion = tuple[str, list[str]]
"""(directory, command that fills it, which takes the directory last)"""


@dataclass(frozen=True)
class Loaded:
    """One planned model as Triton has it, decided once; what the server says of it follows from here."""

    names: tuple[str, ...]
    """In load order: each after those it needs."""
    files: dict[str, bytes]
    """By path inside `models/`."""
    engines: tuple[str, ...] = ()
    """Those of the names that are behind the C++ backend."""
    conversions: tuple[Conversion, ...] = ()
    """What the image makes from other files before the server starts."""
