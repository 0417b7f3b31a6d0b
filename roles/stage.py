"""What can be brought to a host while it serves: image and weights. Started early, awaited late, in one breath here.

The two long units run beside each other, and beside whatever the story does between `begin…` and `finish`: weights can
start as soon as the host has Python, the image as soon as it has Docker.
"""

from __future__ import annotations

from deploy.slice import Slice
from roles import model_store, registry


def begin_weights(mine: Slice) -> None:
    """The host fetches its weights. Needs the role base (python3)."""
    model_store.begin(mine)


def begin_image(mine: Slice) -> None:
    """The host pulls its image. Needs the role docker."""
    registry.begin(mine)


def finish(mine: Slice) -> None:
    """Weights are published and checked, the image is there; what the control machine sends is sent meanwhile."""
    model_store.finish(mine)
    registry.finish(mine)


def apply(mine: Slice) -> None:
    """All of it; what already began is attached to."""
    begin_weights(mine)
    begin_image(mine)
    finish(mine)
