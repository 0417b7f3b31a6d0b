"""Every Triton server of the host serves its planned release, proven by one real answer per model.

A release is rendered here, published as an immutable directory, and taken into service by a transaction that lives on
the host (files/host/swap.py): stop, switch `current`, start, load in order, ask; or put back what served before.
pyinfra asks for it and waits. Where the planned release already serves, nothing happens. A server the plan no longer
names is forgotten last: until every planned one serves, it may be what has to serve again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.slice import ServerSlice, Slice
from roles import undo
from roles.settings import overridden
from roles.steps import Reading, step
from roles.triton.defaults import Defaults
from roles.triton.facts import Probed, Proof, Served, Serving
from roles.triton.operations import Publish, ask_for, probe, retire, swap_seconds, texts
from roles.triton.render import release_id, render

Decide = Callable[[Serving], Iterator[PyinfraCommand]]


def apply(mine: Slice, plan: str) -> None:
    """Install, publish, prove CUDA, swap: in that order, each only where it is needed. `plan` goes into the history."""
    settings = overridden(host, "triton", Defaults())
    wanted = texts(mine.servers)
    installed = step(
        undo.look("triton", wanted),
        lambda found: undo.put_watched("triton", wanted, found),
        name="Triton | Install programs and units",
    )
    serving = Reading(Served)
    step(serving, _sweep, name="Triton | Remove containers that lost their unit")
    for server in host.loop(mine.servers):
        files = render(server, settings)
        release = release_id(server, files)
        published = step(
            serving, _publish(server, release, files), name=f"Triton | Publish release {release} for {server.name}"
        )
        proven = _prove_cuda(server, settings)
        step(
            serving,
            _swap(mine, server, release, plan, settings),
            after=[installed, published, proven],
            name=f"Triton | Swap in release {release} on {server.name}",
        )
    step(serving, _retire(mine), name="Triton | Stop what is no longer planned")


def _sweep(serving: Serving) -> Iterator[PyinfraCommand]:
    """They hold ports and GPUs that are planned for others."""
    for name in sorted(serving.orphans):
        yield StringCommand(f"docker rm --force triton-{name}")


def _spare(mine: Slice, serving: Serving) -> list[str]:
    """Servers of earlier plans of which something would start, serve, or show as failed."""
    planned = {server.name for server in mine.servers}
    return [name for name, state in serving.servers.items() if name not in planned and not state.is_gone]


def _retire(mine: Slice) -> Decide:
    """Their records and releases stay."""

    def decide(serving: Serving) -> Iterator[PyinfraCommand]:
        for name in _spare(mine, serving):
            yield retire(name)

    return decide


def _publish(server: ServerSlice, release: str, files: dict[str, bytes]) -> Decide:
    def decide(serving: Serving) -> Iterator[PyinfraCommand]:
        if release not in serving.releases:
            yield Publish(release, server, files)

    return decide


def _prove_cuda(server: ServerSlice, settings: Defaults):  # type: ignore[no-untyped-def]
    reading = Reading(Probed, {"image": server.image.pull_reference, "gpus": server.gpus})

    def decide(proof: Proof) -> Iterator[PyinfraCommand]:
        if server.gpus and not proof.is_proven:
            yield from probe(server, proof, settings)

    return step(reading, decide, name=f"Triton | Prove CUDA inside the image for {server.name}")


def _swap(mine: Slice, server: ServerSlice, release: str, plan: str, settings: Defaults) -> Decide:
    def decide(serving: Serving) -> Iterator[PyinfraCommand]:
        seen = serving.server(server.name)
        if seen.enabled != "enabled":
            yield StringCommand(f"systemctl enable triton@{server.name}.service")
        if not seen.serves(release):
            spare = _spare(mine, serving)
            seconds = swap_seconds(server, settings, len(spare))
            yield from ask_for(server.name, release, plan, settings, seconds, instead_of=spare)

    return decide


def back(mine: Slice, plan: str) -> None:
    """Every server serves what served before its last swap; the same transaction, the other way round."""
    settings = overridden(host, "triton", Defaults())
    serving = Reading(Served)
    for server in host.loop(mine.servers):
        step(serving, _back(server, plan, settings), name=f"Triton | Put back the previous release on {server.name}")


def tell_what_stays(mine: Slice) -> None:
    """Says, before anything happens, what going back to a release does not undo."""
    host.log(
        "going back changes model repository, settings and start line of " + ", ".join(s.name for s in mine.servers)
    )
    host.log("it does not undo: driver, Docker, container toolkit, weights, pulled images, ports opened elsewhere")
    host.log("the next deploy.py brings the inventory's release again; change the inventory to stay")


def _back(server: ServerSlice, plan: str, settings: Defaults) -> Decide:
    def decide(serving: Serving) -> Iterator[PyinfraCommand]:
        yield from ask_for(server.name, "previous", plan, settings, swap_seconds(server, settings))

    return decide
