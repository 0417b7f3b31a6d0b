"""Settings of the role with their defaults; an inventory overrides them with `rollout_settings = {…}`."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Seconds that a wave waits for room, and the smallest slowdown that counts."""

    room_seconds: Annotated[int, Range(0, 86_400)] = 120
    """Seconds within which balancers must report enough ready hosts of the pool before another host is drained; a
    balancer checks about every second."""
    slower_floor_milliseconds: Annotated[int, Range(0, 60_000)] = 50
    """Milliseconds below which a difference never counts as slower: short answers vary by as much."""


def settings(host: Host) -> Defaults:
    return overridden(host, "rollout", Defaults())
