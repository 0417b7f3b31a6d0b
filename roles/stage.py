"""What can be brought to a host while it serves: image and weights. Both are units: started early, awaited late.

A host that serves nothing yet has them started by `foundation`, as soon as it has Python and Docker, so that they run
beside the driver's installation. On one that serves they start here, where they interrupt nothing.
"""

from __future__ import annotations

from pyinfra import host

from deploy.slice import Slice
from roles import model_store, registry
from roles.foundation import Serving


def apply(mine: Slice) -> None:
    """The weights are published and checked, and the image is there."""
    if host.get_fact(Serving):
        model_store.begin(mine)
        registry.begin(mine)
    model_store.finish(mine)
    registry.finish(mine)
