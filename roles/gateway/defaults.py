"""What the gateway role settles by itself; an inventory overrides it with `gateway_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import ATTEMPTS, SECONDS
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """How long packages may take on their way."""

    fetch_seconds: Annotated[int, SECONDS] = 1800
    """How long the control machine's pip may fetch the wheels of one Python, some 60 MB."""
    rsync_seconds: Annotated[int, SECONDS] = 3600
    """How long one attempt to send them may take."""
    rsync_attempts: Annotated[int, ATTEMPTS] = 5
    """What was sent is kept between them."""


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "gateway", Defaults())
