"""Settings of the role with their defaults; an inventory overrides them with `registry_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import SECONDS, Range, Text


@dataclass(frozen=True)
class Defaults:
    """Time limits of a run that waits for images."""

    pull_seconds: Annotated[int, SECONDS] = 3 * 3600
    """Seconds that a run waits. The unit continues after this time; 14 GB at 100 Mbit/s are 20 minutes."""
    give_seconds: Annotated[int, SECONDS] = 3600
    """Seconds after which a host stops sharing an image with others that never complete it."""
    patience_seconds: Annotated[int, Range(1, 3600)] = 60
    """Seconds within which other hosts must deliver at least 64 KiB a second; else the registry is used."""
    offer_seconds: Annotated[int, SECONDS] = 3600
    """Seconds that a host may read an image's blobs before it shares them for the first time."""
    bandwidth_limit: Annotated[str, Text(r"(\d+(\.\d+)?[kKmMgG]?)?", "a number with k, m or g, or nothing")] = ""
    """Limit of the image's transfer between hosts ("80m"); a download from the registry has no limit."""

    @property
    def fetch_seconds(self) -> int:
        return self.pull_seconds
