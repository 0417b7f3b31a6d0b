"""Settings of the role with their defaults; an inventory overrides them with `cleanup_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Numbers of each kind that stay beside those that the plan names and the last two served releases use."""

    keep_weights: Annotated[int, Range(0, 1000)] = 1
    """Revisions of each model; up to hundreds of GB each."""
    keep_engines: Annotated[int, Range(0, 1000)] = 2
    """Of each model; an hour of a GPU each."""
    keep_images: Annotated[int, Range(0, 1000)] = 0
    """14 to 30 GB each, and a registry has them."""
    keep_failed: Annotated[int, Range(0, 1000)] = 1
    """Of each model, what a failed build or a refused engine left to look at."""


def settings(host: Host) -> Defaults:
    return overridden(host, "cleanup", Defaults())
