"""What the MIG role settles by itself; an inventory overrides it under `mig_settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import SECONDS
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """How long a reboot may take, where a pending mode needs one."""

    reboot_seconds: Annotated[int, SECONDS] = 900
    """How long a run waits for a host to come back, where a pending mode needs a reboot."""


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "mig", Defaults())
