"""Triton's models for a planned model; on the engine path there are several."""

from dataclasses import dataclass

Conversion = tuple[str, list[str]]
"""(directory, command that fills it, which takes the directory last)"""


@dataclass(frozen=True)
class Loaded:
    """A planned model as Triton loads it; the server's own names and answers follow from it."""

    names: tuple[str, ...]
    """Models in load order: each after the models that it needs."""
    files: dict[str, bytes]
    """Files by path inside `models/`."""
    engines: tuple[str, ...] = ()
    """Names of the models behind the C++ backend."""
    conversions: tuple[Conversion, ...] = ()
    """Files that the image converts from others before the server starts."""
