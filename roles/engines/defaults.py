"""Settings of the role with their defaults; an inventory overrides them with `engines_settings = {…}`."""

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import ATTEMPTS, SECONDS
from deploy.io.engine_records import LEDGER


@dataclass(frozen=True)
class Defaults:
    """Path of the ledger, and the times that a run waits. The role cleanup decides which engines a host keeps."""

    ledger: str = LEDGER
    """Directory of the clone with a copy of every signed engine.json; commit it, so that `plan` knows the built
    engines."""
    build_seconds: Annotated[int, SECONDS] = 8 * 3600
    """Seconds that a run waits for one engine. The unit continues after this time, and a second run attaches."""
    rsync_seconds: Annotated[int, SECONDS] = 24 * 3600
    """Seconds for one attempt to send an engine."""
    rsync_attempts: Annotated[int, ATTEMPTS] = 5
    """Attempts; sent bytes are kept between them."""
