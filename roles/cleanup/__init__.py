"""Removes files that no server of the host needs: weights, engines, images, failed builds, stale caches.

It comes last in a deploy, after every wave has passed its gate; the host's own program checks once more that everything
serves. Files of the current and the previous release are always kept, because rollback.py needs them; so are files of
the last six hours, which another run may have brought for a later swap.
"""

from collections.abc import Iterator

from pyinfra import host, logger
from pyinfra.api.command import StringCommand

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, step
from roles.cleanup.defaults import settings
from roles.cleanup.facts import SpareFiles
from roles.cleanup.operations import kept, remove


def apply(mine: Slice) -> None:
    """Removes everything beyond the kept numbers; `--dry` lists it."""
    arguments = kept(mine, settings(host))

    logged: set[str] = set()  # each line is logged once, not in both phases

    def clean(spare: list[str]) -> Iterator[StringCommand]:
        for line in spare:
            if line not in logged:
                host.log(f"no longer needed: {line}", log_func=logger.info)
        logged.update(spare)
        if spare:
            yield remove(arguments)

    step(
        CachedFact(SpareFiles, {"kept": arguments}), clean, name="Cleanup | Remove unneeded images, weights and engines"
    )
