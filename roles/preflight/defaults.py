"""Settings of preflight with their defaults; an inventory overrides them under `preflight_settings`."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Tolerances and time limits."""

    clock_seconds: Annotated[int, Range(1, 3600)] = 60
    """Seconds between the two clocks: after a larger difference, TLS certificates and apt's Release files may seem not
    yet valid."""
    memory_percent: Annotated[int, Range(1, 100)] = 94
    """Least percent of the declared memory; firmware and kernel keep some of it."""
    connect_seconds: Annotated[int, Range(1, 600)] = 5
    """Seconds for the host's attempts to reach registry, hub and repositories."""
    check_network: bool = True
    """False if a proxy that this role does not know is the only way out."""


def settings(host: Host) -> Defaults:
    return overridden(host, "preflight", Defaults())
