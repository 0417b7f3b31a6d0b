"""Downloads to a host while it serves: image, weights, engines. Started early, awaited late.

For a host that does not serve yet, `foundation` starts the downloads of image and weights as soon as it has Python and
Docker, in parallel with the driver's installation. For a serving host the downloads start here, where they interrupt no
server. An engine is built from image and weights, so it comes last; a build beside a server needs GPU memory that the
server leaves free.
"""

from collections.abc import Iterable

from pyinfra import host

from deploy.slices.host import Slice
from roles import engines, model_store, registry
from roles._pyinfra.steps import ask
from roles.foundation import Serving


def apply(mine: Slice, slices: Iterable[Slice]) -> None:
    """Publishes and verifies weights, image and every signed engine on the host. `slices`: those of all hosts."""
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
