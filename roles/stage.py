"""Downloads to a host while it serves: image, weights, engines. Started early, awaited late.

A host that serves nothing yet has image and weights started by `foundation`, as soon as it has Python and Docker, so
that they run beside the driver's installation. On one that serves they start here, where they interrupt nothing. An
engine is built from both, so it comes last; one that is built beside a server needs GPU memory the server leaves free.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra import host

from deploy.slices.host import Slice
from roles import engines, model_store, registry
from roles._pyinfra.steps import ask
from roles.foundation import Serving


def apply(mine: Slice, slices: Iterable[Slice]) -> None:
    """Publishes and checks weights, and brings the image and every signed engine. `slices`: those of all hosts."""
    _fetched(mine)
    engines.apply(mine, slices)


def build(mine: Slice, slices: Iterable[Slice]) -> None:
    """Builds, signs and stores the engines that this host builds for others."""
    _fetched(mine)
    engines.build(mine, slices)


def _fetched(mine: Slice) -> None:
    if ask(host, Serving):
        model_store.begin(mine)
        registry.begin(mine)
    model_store.finish(mine)
    registry.finish(mine)
