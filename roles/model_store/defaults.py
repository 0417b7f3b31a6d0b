"""Settings of the role with their defaults; an inventory overrides them with `model_store_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import ATTEMPTS, SECONDS, Range, Text


@dataclass(frozen=True)
class Defaults:
    """Seconds that a run waits for a fetch, and the settings of rsync.

    No `--whole-file` and no `-z`: the first deletes what `--partial-dir` kept for resuming, the second costs a core on
    data that does not shrink.
    """

    fetch_seconds: Annotated[int, SECONDS] = 12 * 3600
    """How long a run waits for one fetch. The unit goes on after it, and a second run attaches."""
    rsync_seconds: Annotated[int, SECONDS] = 24 * 3600
    """How long one attempt to send a model may take."""
    fetch_attempts: Annotated[int, ATTEMPTS] = 4
    """Of the control machine's own fetch; what was fetched is kept between them."""
    rsync_attempts: Annotated[int, ATTEMPTS] = 5
    """What was sent is kept between them."""
    give_seconds: Annotated[int, SECONDS] = 3600
    """How long a host gives a model to others that never come to have all of it."""
    patience_seconds: Annotated[int, Range(1, 3600)] = 60
    """Within so long 64 KiB a second must have come from other hosts, else the direct way is taken."""
    offer_seconds: Annotated[int, SECONDS] = 3600
    """How long a host may read a model through before it gives it for the first time."""
    bandwidth_limit: Annotated[str, Text(r"(\d+(\.\d+)?[kKmMgG]?)?", "a number with k, m or g, or nothing")] = ""
    """rsync's --bwlimit ("80m"), if several hosts share one uplink; also what a host gives others and gets there."""
