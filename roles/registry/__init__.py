"""Puts the release's image on the host: a unit pulls it, by digest once pinned, with a login only if one is declared.

`begin` starts the unit and returns; `finish` waits for it. An existing image needs no unit. The key is sent from the
control machine to a file in memory on standard input; the unit removes it, or the run that notices the unit's end.

Hosts that share their image (`Sharing.images_port`) ask its registry once among them: the first host that needs it
keeps its blobs. The others get the blobs from peers, and ask the registry if no peer delivers. Docker pulls them from
loopback, by the pinned digest.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from shlex import quote

from pyinfra import host
from pyinfra import state as run_state
from pyinfra.api.command import PyinfraCommand

from deploy.models.files import blobs_path
from deploy.slices.host import Slice
from deploy.slices.image import ImageSlice
from roles._pyinfra import quiet, undo
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping import peers, units
from roles._shipping.places import RUNTIME
from roles.registry.defaults import Defaults
from roles.registry.facts import Pull, PullState
from roles.registry.operations import mark_path, pull_id, start_pull, texts

Decide = Callable[[PullState], Iterator[PyinfraCommand]]


def begin(mine: Slice) -> None:
    """Starts the pull of each missing image in its unit. A private CA needs no restart of the daemon."""
    _begin(mine)
    for image in host.loop(mine.runtime_images):
        _begin(_with(mine, image))


def finish(mine: Slice) -> None:
    """Waits for every image, and records its digest in /var/lib/enginehouse/images."""
    _finish(mine)
    for image in host.loop(mine.runtime_images):
        _finish(_with(mine, image))


def _with(mine: Slice, image: ImageSlice) -> Slice:
    return replace(mine, image=image, registry=mine.registry_of(image.reference))


def _begin(mine: Slice) -> None:
    wanted, settings = texts(mine), overridden(host, "registry", Defaults())
    prepared = undo.put_texts("registry", wanted, name="Registry | Install the pull program")
    pull = CachedFact(Pull, _arguments(mine))
    if _is_shared(mine):
        check(pull, _noted(mine), name="Registry | Check for the image's blobs")
        quiet.when_prepared(_note_now, mine, pull)

    def start(pull: PullState) -> Iterator[PyinfraCommand]:
        if not pull.has_image and not pull.is_going and _is_direct(mine, settings, pull):
            yield start_pull(mine)

    step(pull, start, after=[prepared], name=f"Registry | Start the pull of {_short(mine)}")


def _finish(mine: Slice) -> None:
    settings, pull = overridden(host, "registry", Defaults()), CachedFact(Pull, _arguments(mine))

    def wait(pull: PullState) -> Iterator[PyinfraCommand]:
        if not pull.has_image and (pull.is_going or _is_direct(mine, settings, pull)):
            yield _followed(mine, settings)

    step(pull, wait, name=f"Registry | Wait for {_short(mine)}")
    if _is_shared(mine):
        check(pull, _noted(mine), name="Registry | Check for received blobs")
        step(pull, _received(mine, settings), name="Registry | Get the image from other hosts")
        step(pull, _left_over(mine, settings), name="Registry | Load or pull the image")


def _is_shared(mine: Slice) -> bool:
    return bool(mine.image.shared_port and mine.sharing and mine.sharing.of(*peers.Files.of(mine.image).key))


def _noted(mine: Slice) -> Decide:
    """Notes for the other hosts of the run if this host has the files; never refuses."""

    def judge(pull: PullState) -> Iterator[PyinfraCommand]:
        peers.board(host.state).note(mine.host, peers.Files.of(mine.image), pull.has_blobs)
        yield from ()

    return judge


def _note_now(mine: Slice, pull: CachedFact[PullState]) -> None:
    list(_noted(mine)(pull.now()))


def _is_direct(mine: Slice, settings: Defaults, pull: PullState) -> bool:
    """True if this host has the blobs, or asks the registry before any other host."""
    shared = _sharing(mine, settings)
    return shared is None or pull.has_blobs or shared.is_first(host.state)


def _sharing(mine: Slice, settings: Defaults) -> peers.Sharing | None:
    return peers.Sharing.of(mine, peers.Files.of(mine.image), settings, host.state) if mine.image.shared_port else None


def _received(mine: Slice, settings: Defaults) -> Decide:
    """Receives the blobs from peers, if this host lacks them."""

    def decide(pull: PullState) -> Iterator[PyinfraCommand]:
        shared = _sharing(mine, settings)
        is_wanted = not (pull.has_image or pull.has_blobs or pull.is_going)
        if not is_wanted or shared is None or shared.is_first(host.state):
            return
        if not run_state.is_executing or shared.has_a_giver(host.state):
            request = peers.Ask(shared)
            yield request
            yield peers.Await(request)

    return decide


def _left_over(mine: Slice, settings: Defaults) -> Decide:
    """Pulls the image if it is still missing; decides only at execution."""

    def decide(pull: PullState) -> Iterator[PyinfraCommand]:
        if run_state.is_executing and not pull.has_image:
            if not pull.is_going:
                yield start_pull(mine)
            yield _followed(mine, settings)

    return decide


def _followed(mine: Slice, settings: Defaults) -> PyinfraCommand:
    # systemd deletes the key when the unit ends; this command deletes a key that an interrupted unit left.
    forget = f"rm -rf {quote(f'{RUNTIME}/registry/{pull_id(mine.image)}')} || true"
    return units.Follow(f"enginehouse-pull@{pull_id(mine.image)}.service", "image", settings.pull_seconds, after=forget)


def _arguments(mine: Slice) -> dict[str, str]:
    shared = {"blobs": blobs_path(mine.image.digest)} if mine.image.shared_port else {}
    unit = f"enginehouse-pull@{pull_id(mine.image)}.service"
    return {"reference": mine.image.pull_reference, "unit": unit, "mark": mark_path(mine.image)} | shared


def _short(mine: Slice) -> str:
    return mine.image.reference.rsplit("/", 1)[-1]
