"""Settings of the role with their defaults; an inventory overrides them with `cleanup_settings = {…}`."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Number of spare items of each kind, in addition to those of the plan and of the last two served releases."""

    keep_weights: Annotated[int, Range(0, 1000)] = 1
    """Number of revisions of each model to keep on disk; a revision may have hundreds of GB."""
    keep_engines: Annotated[int, Range(0, 1000)] = 2
    """Engines kept of each model; each costs an hour of a GPU."""
    keep_images: Annotated[int, Range(0, 1000)] = 0
    """Images kept, 14 to 30 GB each; a registry also has each image."""
    keep_failed: Annotated[int, Range(0, 1000)] = 1
    """Failed builds and refused engines kept of each model for inspection."""


def settings(host: Host) -> Defaults:
    return overridden(host, "cleanup", Defaults())
