"""What the plan needs besides the inventory, read once at the edge and handed in.

Today's date and local checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True, kw_only=True)
class LocalWeights:
    """A directory of the control machine, from the headers of its safetensors files: nothing is loaded."""

    revision: str
    """`local-` and 16 hex digits over names, sizes and headers."""
    stored_bytes: int
    parameters: int
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """`local` has one entry for each directory an inventory names that holds safetensors files."""

    today: date
    local: Mapping[str, LocalWeights] = field(default_factory=dict)
