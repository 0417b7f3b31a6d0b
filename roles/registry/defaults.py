"""What the role settles itself; an inventory overrides it with `registry_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deploy.knobs import SECONDS


@dataclass(frozen=True)
class Defaults:
    """How patient a run is."""

    pull_seconds: Annotated[int, SECONDS] = 3 * 3600
    """How long a run waits. The unit goes on after it; 14 GB at 100 Mbit/s are 20 minutes."""
