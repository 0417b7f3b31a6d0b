"""Puts the release's image on the host: a unit pulls it, by digest once pinned, with a login only if one is declared.

`begin` starts the unit and returns; `finish` waits for it. Nothing happens when the image is already there. The key
goes from the control machine to a file in memory on standard input, and the unit removes it, or the run that
hears of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from deploy.slice import Slice
from roles import undo, units
from roles.places import RUNTIME
from roles.registry.defaults import Defaults
from roles.registry.facts import Pull, PullState
from roles.registry.operations import pull_id, start_pull, texts
from roles.settings import overridden
from roles.steps import Reading, step


def begin(mine: Slice) -> None:
    """The pull runs in its unit, or the image is there already. The daemon needs no restart for a private CA."""
    wanted = texts(mine)
    prepared = step(
        undo.look("registry", wanted),
        lambda installed: undo.put_watched("registry", wanted, installed),
        name="Registry | Install the pull",
    )
    step(
        Reading(Pull, _arguments(mine)),
        _start(mine),
        after=[prepared],
        name=f"Registry | Start the pull of {_short(mine)}",
    )


def finish(mine: Slice) -> None:
    """The image is there, and its digest is recorded in /var/lib/enginehouse/images."""
    settings = overridden(host, "registry", Defaults())

    def wait(pull: PullState) -> Iterator[PyinfraCommand]:
        if not pull.has_image:
            unit = f"enginehouse-pull@{pull_id(mine.image)}.service"
            # systemd takes the key away when the unit ends; this is for one whose end left it all the same.
            forget = f"rm -rf {RUNTIME}/registry/{pull_id(mine.image)} || true"
            yield units.Follow(unit, "image", settings.pull_seconds, after=forget)

    step(Reading(Pull, _arguments(mine)), wait, name=f"Registry | Wait for {_short(mine)}")


def _start(mine: Slice) -> Callable[[PullState], Iterator[PyinfraCommand]]:
    def decide(pull: PullState) -> Iterator[PyinfraCommand]:
        if not pull.has_image and not pull.is_going:
            yield start_pull(mine)

    return decide


def _arguments(mine: Slice) -> dict[str, str]:
    return {"reference": mine.image.pull_reference, "unit": f"enginehouse-pull@{pull_id(mine.image)}.service"}


def _short(mine: Slice) -> str:
    return mine.image.reference.rsplit("/", 1)[-1]
