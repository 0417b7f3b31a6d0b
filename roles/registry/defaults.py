"""Settings of the role with their defaults; an inventory overrides them with `registry_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import SECONDS, Range, Text


@dataclass(frozen=True)
class Defaults:
    """Limits of a run's waiting."""

    pull_seconds: Annotated[int, SECONDS] = 3 * 3600
    """How long a run waits. The unit goes on after it; 14 GB at 100 Mbit/s are 20 minutes."""
    give_seconds: Annotated[int, SECONDS] = 3600
    """How long a host gives an image to others that never come to have all of it."""
    patience_seconds: Annotated[int, Range(1, 3600)] = 60
    """Within so long 64 KiB a second must have come from other hosts, else the registry is asked."""
    offer_seconds: Annotated[int, SECONDS] = 3600
    """How long a host may read an image's blobs through before it gives them for the first time."""
    bandwidth_limit: Annotated[str, Text(r"(\d+(\.\d+)?[kKmMgG]?)?", "a number with k, m or g, or nothing")] = ""
    """What a host gives others of the image and gets there ("80m"); what the registry sends has no limit."""

    @property
    def fetch_seconds(self) -> int:
        return self.pull_seconds
