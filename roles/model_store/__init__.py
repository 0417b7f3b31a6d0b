"""Puts every model's files on the host, pinned, checked and published by rename: /var/lib/enginehouse/weights.

Three ways, one result (a directory with manifest.sha256): a hub repository fetched by the host in its own unit; the
same fetched by the control machine, or a directory of the control machine, sent with rsync and checked on the host.
`begin` starts the units; `finish` sends what the control machine has to send and waits for the units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.files import weights_path
from deploy.slice import Slice, WeightsSlice
from roles import undo, units
from roles.model_store.defaults import Defaults
from roles.model_store.facts import Published, StoreState
from roles.model_store.operations import Send, fetch_unit, start_fetch, texts
from roles.settings import overridden
from roles.steps import Reading, step


def begin(mine: Slice) -> None:
    """Every fetch the host does itself is under way, or done already."""
    wanted = texts(mine)
    prepared = step(
        undo.look("model-store", wanted),
        lambda installed: undo.put_watched("model-store", wanted, installed),
        name="Model store | Install the fetch",
    )

    def decide(store: dict[str, StoreState]) -> Iterator[PyinfraCommand]:
        for weights in mine.weights:
            state = store.get(weights.model, StoreState())
            if weights.fetch_on == "host" and not state.manifest and not state.unit.is_going:
                yield start_fetch(weights, mine.hub)

    step(Reading(Published, _arguments(mine)), decide, after=[prepared], name="Model store | Start fetching weights")


def finish(mine: Slice) -> None:
    """All weights are published, complete and checked."""
    settings = overridden(host, "model_store", Defaults())
    published = Reading(Published, _arguments(mine))
    for weights in host.loop(mine.weights):
        verb = "Wait for" if weights.fetch_on == "host" else "Send"
        decide = _awaited(weights, settings) if weights.fetch_on == "host" else _sent(weights, mine, settings)
        step(published, decide, name=f"Model store | {verb} {weights.model} {weights.revision[:12]}")


def _awaited(weights: WeightsSlice, settings: Defaults) -> Callable[[dict[str, StoreState]], Iterator[PyinfraCommand]]:
    def decide(store: dict[str, StoreState]) -> Iterator[PyinfraCommand]:
        if not store.get(weights.model, StoreState()).manifest:
            yield units.Follow(fetch_unit(weights), f"weights of {weights.model}", settings.fetch_seconds)
            yield StringCommand(f"test -s {weights_path(weights)}/manifest.sha256")

    return decide


def _sent(
    weights: WeightsSlice, mine: Slice, settings: Defaults
) -> Callable[[dict[str, StoreState]], Iterator[PyinfraCommand]]:
    def decide(store: dict[str, StoreState]) -> Iterator[PyinfraCommand]:
        return Send(weights, mine.hub, settings).commands(store.get(weights.model, StoreState()))

    return decide


def _arguments(mine: Slice) -> dict[str, object]:
    return {"wanted": tuple((weights.model, weights.revision, fetch_unit(weights)) for weights in mine.weights)}
