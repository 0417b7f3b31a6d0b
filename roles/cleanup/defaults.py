"""What the role settles itself; an inventory overrides it with `cleanup_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import Host

from roles.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """How many of each kind stay beside what the plan names and what the last two that served use."""

    keep_weights: int = 1
    """Revisions of each model; up to hundreds of GB each."""
    keep_engines: int = 2
    """Of each model; an hour of a GPU each."""
    keep_images: int = 0
    """14 to 30 GB each, and a registry has them."""
    keep_failed: int = 1
    """Of each model, what a failed build or a refused engine left to look at."""


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "cleanup", Defaults())
