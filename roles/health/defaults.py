"""Settings of the role with their defaults; an inventory overrides them with `health_settings = {…}`."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """The interval between a watchdog's probes, and the consequences of a server's silence."""

    watch_seconds: Annotated[int, Range(1, 3600)] = 60
    """Seconds between two checks."""
    answer_seconds: Annotated[int, Range(1, 3600)] = 30
    """Time for one answer of one token, one vector or one pair."""
    misses: Annotated[int, Range(1, 1000)] = 3
    """Misses of one model in a row before its server is restarted; a model that answers other requests counts as slow,
    which is not a miss."""
    restarts: Annotated[int, Range(1, 100)] = 3
    """Restarts within `restart_hours`, after which a person is needed. systemd gives up a unit after five starts in two
    hours."""
    restart_hours: Annotated[int, Range(1, 168)] = 2
    """The time in which `restarts` are counted."""
    gpu_state_seconds: Annotated[int, Range(1, 3600)] = 60
    """Seconds between two readings of the GPUs' errors, and between two checks of the program that repairs them."""
    repairs: Annotated[int, Range(1, 20)] = 3
    """Repairs of this host's GPUs within a day, if `Machine(repair=…)` allows repairs; after that a person is needed.
    """


def settings(host: Host) -> Defaults:
    return overridden(host, "health", Defaults())
