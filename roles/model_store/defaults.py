"""Settings of the role with their defaults; an inventory overrides them with `model_store_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import ATTEMPTS, SECONDS, Range, Text


@dataclass(frozen=True)
class Defaults:
    """Seconds that a run waits for a fetch, and the settings of rsync.

    rsync runs without `--whole-file`, which deletes the partial files of `--partial-dir`, and without `-z`, which costs
    a core on incompressible data.
    """

    fetch_seconds: Annotated[int, SECONDS] = 12 * 3600
    """Seconds that a run waits for one fetch. The unit continues after this time, and a second run attaches."""
    rsync_seconds: Annotated[int, SECONDS] = 24 * 3600
    """Seconds for one attempt to send a model."""
    fetch_attempts: Annotated[int, ATTEMPTS] = 4
    """Attempts of the control machine's own fetch; fetched bytes are kept between them."""
    rsync_attempts: Annotated[int, ATTEMPTS] = 5
    """Attempts; sent bytes are kept between them."""
    give_seconds: Annotated[int, SECONDS] = 3600
    """Seconds after which a host stops sharing a model with others that never complete it."""
    patience_seconds: Annotated[int, Range(1, 3600)] = 60
    """Seconds within which other hosts must deliver at least 64 KiB a second; else the files come directly."""
    offer_seconds: Annotated[int, SECONDS] = 3600
    """Seconds that a host may read a model before it shares it for the first time."""
    bandwidth_limit: Annotated[str, Text(r"(\d+(\.\d+)?[kKmMgG]?)?", "a number with k, m or g, or nothing")] = ""
    """rsync's --bwlimit ("80m"), if several hosts share one uplink; also the limit for sharing between hosts."""
