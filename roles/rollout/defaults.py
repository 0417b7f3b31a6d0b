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
    """Seconds until hosts of the pool must be seen ready before another one is drained; a balancer checks every
    second or so."""
    slower_floor_milliseconds: Annotated[int, Range(0, 60_000)] = 50
    """A difference below it never counts as slower: answers of a few milliseconds vary by as much."""


def settings(host: Host) -> Defaults:
    return overridden(host, "rollout", Defaults())
